/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/got/slots.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/got/relocs.h"
#include "attach/memory/memory.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/compile.h"
#include "tests/support/elfwriter.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/attach/slotview.h"

static raddr_t at(const void *pointer)
{
	return (raddr_t)(uintptr_t)pointer;
}

/* Returns true if a line of `readelf -rW` is a relocation that stores the address of a function
 * with a hook, as "OFFSET INFO R_X86_64_GLOB_DAT VALUE malloc@GLIBC_2.2.5 + 0". */
static bool line_names_hook(char *line, uint64_t *offset, char *name)
{
	char type[40], symbol[256];
	if (sscanf(line, "%lx %*x %39s %*x %255s", offset, type, symbol) != 3)
		return false;
	if (strcmp(type, "R_X86_64_JUMP_SLOT") != 0 && strcmp(type, "R_X86_64_JUMP_SLO") != 0 &&
		strcmp(type, "R_X86_64_GLOB_DAT") != 0 && strcmp(type, "R_X86_64_64") != 0)
		return false;
	symbol[strcspn(symbol, "@")] = '\0';
	snprintf(name, 64, "%.63s", symbol);
	for (uint32_t i = 0; i < TAP_NAME_FAMILY + family_name_count(); i++)
		if (!tap_name_is_given(i) && !strcmp(symbol, tap_name(i)))
			return true;
	return false;
}

/* Returns true if the process has an allocator whose C++ operators have slots. */
static bool has_allocator(const struct view *view)
{
	for (size_t i = 0; i < view->modules.count; i++)
		if (strstr(view->modules.module[i].path, "/libjemalloc.so") ||
			strstr(view->modules.module[i].path, "/libtcmalloc"))
			return true;
	return false;
}

static size_t compare_with_readelf(const struct view *view, const struct module *module)
{
	char *text;
	ck_assert_int_eq(run_program((const char *[]){"readelf", "-rW", module->path, NULL}, 60000,
				 &text, NULL),
		0);
	size_t listed = 0, found = 0;
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n"));) {
		uint64_t offset;
		char name[64];
		if (!line_names_hook(line, &offset, name) ||
			(family_is_operator(name) && !has_allocator(view)))
			continue;
		listed++;
		const struct slot *slot = slot_at(view, module->bias + offset);
		ck_assert_msg(
			slot, "%s: slot of %s at %#lx is missing", module->path, name, offset);
		ck_assert_str_eq(tap_name(slot->name), name);
		ck_assert_uint_eq(slot->module_id, module->id);
	}
	free(text);
	for (size_t i = 0; i < view->slots.count; i++)
		found += view->slots.slot[i].module_id == module->id &&
			 view->slots.slot[i].type != R_X86_64_RELATIVE;
	ck_assert_msg(
		found == listed, "%s: %zu slots, readelf lists %zu", module->path, found, listed);
	return listed;
}

/* Checks what holds for the slots of any process. */
static void check_slots(const struct view *view)
{
	size_t listed = 0;
	for (size_t i = 0; i < view->modules.count; i++)
		if (view->modules.module[i].path[0] == '/')
			listed += compare_with_readelf(view, &view->modules.module[i]);
	for (size_t i = 0; i < view->slots.count; i++)
		listed += view->slots.slot[i].type == R_X86_64_RELATIVE;
	ck_assert_uint_eq(listed, view->slots.count);
	for (size_t i = 0; i < view->slots.count; i++) {
		const struct slot *slot = &view->slots.slot[i];
		ck_assert(i == 0 || view->slots.slot[i - 1].addr < slot->addr);
		ck_assert(slot->verdict != SLOT_TAP || slot->real);
		if (!slot->real)
			continue;
		const struct module *holder = modules_find(&view->modules, slot->real);
		ck_assert_ptr_nonnull(holder);
		size_t functions = 0;
		for (size_t k = 0; k < view->slots.function_count; k++)
			functions += view->slots.function[k].addr == slot->real &&
				     view->slots.function[k].hook == slot->hook &&
				     view->slots.function[k].module_id == holder->id;
		ck_assert_uint_eq(functions, 1);
	}
}

static size_t count_verdict(
	const struct view *view, const struct module *module, enum slot_verdict verdict)
{
	size_t count = 0;
	for (size_t i = 0; i < view->slots.count; i++)
		count += (!module || view->slots.slot[i].module_id == module->id) &&
			 view->slots.slot[i].verdict == verdict;
	return count;
}

static void check_program(const char *const argv[], const char *const env[], const char *loaded)
{
	char *found;
	bool here = run_program((const char *[]){"which", argv[0], NULL}, 10000, &found, NULL) == 0;
	free(found);
	if (!here) {
		printf("skipped: slots: %s is not installed\n", argv[0]);
		return;
	}
	struct child child = child_exec(argv, env);
	child_mapped(&child, loaded);
	child_sleeping(&child);
	struct view view = view_of(child.pid, 0, 0);
	check_slots(&view);
	ck_assert_uint_gt(count_verdict(&view, NULL, SLOT_TAP), 0);
	ck_assert_uint_eq(count_verdict(&view, NULL, SLOT_FOREIGN), 0);
	view_deinit(&view);
	child_kill(&child);
}

HT_TEST(real_programs_have_the_slots_readelf_lists)
{
	static const char *const jemalloc[] = {"LD_PRELOAD=libjemalloc.so.2", NULL};
	static const char *const tcmalloc[] = {"LD_PRELOAD=libtcmalloc.so.4", NULL};
	check_program((const char *[]){"sleep", "1000", NULL}, NULL, "libc.so.6");
	check_program((const char *[]){"sleep", "1000", NULL}, jemalloc, "libjemalloc");
	check_program((const char *[]){"sleep", "1000", NULL}, tcmalloc, "libtcmalloc");
	char *socket = tmpdir_path("redis");
	check_program((const char *[]){"redis-server", "--port", "0", "--save", "", "--unixsocket",
			      socket, NULL},
		NULL, "libjemalloc");
	free(socket);
	check_program(
		(const char *[]){"/usr/bin/python3", "-c", "import time; time.sleep(1000)", NULL},
		NULL, "libc.so.6");
	check_program((const char *[]){"node", "-e", "setInterval(() => {}, 1e6)", NULL}, NULL,
		"libc.so.6");
}

static const char allocating[] =
	"#include <stdlib.h>\n"
	"#include <string.h>\n"
	"#include <unistd.h>\n"
	"void *volatile p; int n = 8; char *volatile q;\n"
	"int main(int argc, char **argv) {\n"
	"	p = malloc(n); p = realloc(p, 2 * n); free(p); q = strdup(argv[0]); free(q);\n"
	"	if (argc > 5) p = calloc(n, n);\n"
	"	for (;;) pause(); }\n";

static struct child start(const char *path)
{
	struct child child = child_exec((const char *[]){path, NULL}, NULL);
	child_sleeping(&child);
	return child;
}

/* The program never calls calloc: its slot stays unresolved with lazy binding. */
static void check_linking(const char *const command[], bool lazy)
{
	char *path = compile_or_skip("slots", command, allocating);
	if (!path)
		return;
	struct child child = start(path);
	struct view view = view_of(child.pid, 0, 0);
	const struct module *own = module_named(&view, path);
	check_slots(&view);
	ck_assert_uint_eq(count_verdict(&view, own, SLOT_TAP), lazy ? 3 : 4);
	ck_assert_uint_eq(count_verdict(&view, own, SLOT_UNRESOLVED), lazy ? 1 : 0);
	/* musl's dynamic linker is its libc, whose own slots count. */
	ck_assert_uint_eq(count_verdict(&view, NULL, SLOT_SKIPPED), 0);
	view_deinit(&view);
	child_kill(&child);
	free(path);
}

HT_TEST(all_ways_of_linking)
{
	check_linking((const char *[]){"gcc", "-Wl,-z,lazy", NULL}, true);
	check_linking((const char *[]){"gcc", "-Wl,-z,now,-z,relro", NULL}, false);
	check_linking((const char *[]){"gcc", "-Wl,-z,lazy,-z,norelro", NULL}, true);
	check_linking((const char *[]){"gcc", "-fno-plt", NULL}, false);
	check_linking((const char *[]){"gcc", "-fcf-protection", "-Wl,-z,lazy", NULL}, true);
	check_linking((const char *[]){"gcc", "-no-pie", "-Wl,-z,lazy", NULL}, true);
	check_linking((const char *[]){"gcc", "-no-pie", "-Wl,-z,now", NULL}, false);
	check_linking((const char *[]){"gcc", "-fuse-ld=lld", "-Wl,-z,lazy", NULL}, true);
	check_linking(
		(const char *[]){"gcc", "-fuse-ld=lld", "-no-pie", "-Wl,-z,now", NULL}, false);
	check_linking((const char *[]){"gcc", "-fuse-ld=gold", "-Wl,-z,lazy", NULL}, true);
	check_linking((const char *[]){"gcc", "-Wl,--hash-style=sysv,-z,now", NULL}, false);
	check_linking((const char *[]){"gcc", "-Wl,--hash-style=gnu,-z,now", "-s", NULL}, false);
	check_linking((const char *[]){"musl-gcc", NULL}, false);
}

HT_TEST(canonical_plt_entries_lead_to_the_definition)
{
	/* If a non-PIE executable takes the address of malloc, that address is the executable's PLT
	 * entry, in all modules. */
	char *path = compile((const char *[]){"gcc", "-no-pie", "-fno-pic", "-O1", NULL},
		"#include <stdlib.h>\n"
		"#include <unistd.h>\n"
		"void *(*volatile f)(size_t); void (*volatile g)(void *);\n"
		"int main(void) { f = malloc; g = free; g(f(1)); free(malloc(2)); for (;;) "
		"pause(); }\n",
		NULL);
	ck_assert_ptr_nonnull(path);
	struct child child = start(path);
	struct view view = view_of(child.pid, 0, 0);
	const struct module *own = module_named(&view, path),
			    *libc = module_named(&view, "libc.so");
	check_slots(&view);
	size_t canonical = 0;
	raddr_t behind = 0;
	for (size_t i = 0; i < view.slots.count; i++) {
		const struct slot *slot = &view.slots.slot[i];
		if (slot->module_id == own->id && slot->type == R_X86_64_JUMP_SLOT &&
			slot->hook == ABI_HOOK_MALLOC)
			behind = slot->addr;
		if (slot->value < own->lo || slot->value >= own->hi)
			continue;
		canonical++;
		raddr_t definition;
		ck_assert_int_eq(slot->verdict, SLOT_TAP);
		ck_no_err(
			module_symbol(&view.proc, libc, hook_name(slot->hook), NULL, &definition));
		ck_assert_uint_eq(slot->real, definition);
	}
	ck_assert_uint_eq(canonical, 2); /* libc's own slots of malloc and free */
	view_deinit(&view);

	/* Once the executable's slot is tapped, the slots that lead to its PLT entry are covered.
	 */
	ck_no_err(proc_open(child.pid, &view.proc));
	ck_no_err(proc_open_mem(&view.proc));
	ck_no_err(memory_write_u64(&view.proc, behind, 0x700000001000));
	proc_close(&view.proc);
	view = view_of(child.pid, 0x700000001000, 0x700000002000);
	ck_assert_int_eq(slot_at(&view, behind)->verdict, SLOT_OURS);
	libc = module_named(&view, "libc.so");
	for (size_t i = 0; i < view.slots.count; i++)
		if (view.slots.slot[i].module_id == libc->id &&
			view.slots.slot[i].hook == ABI_HOOK_MALLOC)
			ck_assert_int_eq(view.slots.slot[i].verdict, SLOT_UNRESOLVED);
	view_deinit(&view);
	child_kill(&child);
	free(path);
}

static const struct allocator_function *function_of(const struct view *view, enum abi_hook hook)
{
	const struct allocator_function *found = NULL;
	for (size_t i = 0; i < view->slots.function_count; i++)
		if (view->slots.function[i].hook == hook) {
			ck_assert_msg(!found, "two of %s", hook_name(hook));
			found = &view->slots.function[i];
		}
	ck_assert_ptr_nonnull(found);
	return found;
}

HT_TEST(preloaded_shim_is_called)
{
	char *shim = compile((const char *[]){"gcc", "-shared", "-fPIC", NULL},
		"void *__libc_malloc(unsigned long); unsigned long mallocs;\n"
		"void *malloc(unsigned long n) { mallocs++; return __libc_malloc(n); }\n",
		NULL);
	char *path = compile((const char *[]){"gcc", "-Wl,-z,now", NULL}, allocating, NULL);
	char setting[512];
	snprintf(setting, sizeof(setting), "LD_PRELOAD=%s", shim);
	struct child child =
		child_exec((const char *[]){path, NULL}, (const char *[]){setting, NULL});
	child_sleeping(&child);
	struct view view = view_of(child.pid, 0, 0);
	const struct module *module = module_named(&view, shim);
	check_slots(&view);
	ck_assert_uint_eq(function_of(&view, ABI_HOOK_MALLOC)->module_id, module->id);
	ck_assert_uint_eq(function_of(&view, ABI_HOOK_MALLOC)->usable_size, 0);
	ck_assert_uint_eq(
		function_of(&view, ABI_HOOK_FREE)->module_id, module_named(&view, "libc.so")->id);
	ck_assert_uint_ne(function_of(&view, ABI_HOOK_FREE)->usable_size, 0);
	view_deinit(&view);
	child_kill(&child);
	free(shim);
	free(path);
}

HT_TEST(sizes_come_from_the_allocator)
{
	char *path = compile((const char *[]){"gcc", "-Wl,-z,now", NULL},
		"#define _GNU_SOURCE\n"
		"#include <stdlib.h>\n"
		"#include <unistd.h>\n"
		"void *volatile p;\n"
		"int main(void) { p = malloc(9); p = realloc(p, 7); p = reallocarray(p, 3, 3);\n"
		"	free(p); for (;;) pause(); }\n",
		NULL);
	for (int preloaded = 0; preloaded < 2; preloaded++) {
		const char *setting[] = {preloaded ? "LD_PRELOAD=libjemalloc.so.2" : NULL, NULL};
		struct child child = child_exec((const char *[]){path, NULL}, setting);
		child_sleeping(&child);
		struct view view = view_of(child.pid, 0, 0);
		const struct module *module =
			module_named(&view, preloaded ? "libjemalloc" : "libc.so");
		raddr_t usable;
		ck_no_err(module_symbol(&view.proc, module, "malloc_usable_size", NULL, &usable));
		ck_assert_uint_ne(usable, 0);
		ck_assert_uint_eq(function_of(&view, ABI_HOOK_MALLOC)->usable_size, usable);
		ck_assert_uint_eq(function_of(&view, ABI_HOOK_REALLOC)->usable_size, usable);
		/* reallocarray is libc's in both cases, but its blocks are the allocator's. */
		ck_assert_uint_eq(function_of(&view, ABI_HOOK_REALLOCARRAY)->usable_size, usable);
		view_deinit(&view);
		child_kill(&child);
	}
	free(path);
}

/* Adds a word with this relocation and value to the writer's image; returns the verdict on it. */
static enum slot_verdict verdict(
	struct elfwriter *writer, uint32_t type, const char *name, uint64_t value)
{
	uint64_t *word = elfwriter_slot(writer, type, elfwriter_undefined(writer, name), value);
	elfwriter_protect(writer);
	struct view view = view_of(getpid(), 0, 0);
	const struct slot *slot = slot_at(&view, at(word));
	ck_assert_ptr_nonnull(slot);
	ck_assert_uint_eq(slot->value, value);
	ck_assert_uint_eq(slot->type, type);
	enum slot_verdict found = slot->verdict;
	if (found == SLOT_TAP)
		ck_assert_uint_eq(slot->real, value);
	view_deinit(&view);
	elfwriter_open(writer);
	return found;
}

static raddr_t libc_address(const char *name)
{
	return at(dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), name));
}

static void *own_allocator(size_t bytes)
{
	return (void *)bytes;
}

HT_TEST(values_decide)
{
	struct elfwriter writer;
	elfwriter_init(&writer);
	writer.text[6] = 0x68; /* push $index */
	raddr_t libc_malloc = libc_address("malloc"), libc_free = libc_address("free");
	raddr_t alias = libc_address("__libc_malloc");
	const struct {
		uint32_t type;
		const char *name;
		uint64_t value;
		enum slot_verdict verdict;
	} rows[] = {
		{R_X86_64_JUMP_SLOT, "malloc", libc_malloc, SLOT_TAP},
		{R_X86_64_GLOB_DAT, "malloc", libc_malloc, SLOT_TAP},
		{R_X86_64_64, "free", libc_free, SLOT_TAP},
		{R_X86_64_JUMP_SLOT, "malloc", alias, SLOT_TAP},
		{R_X86_64_GLOB_DAT, "free", libc_malloc, SLOT_FOREIGN},
		{R_X86_64_GLOB_DAT, "malloc", libc_malloc + 1, SLOT_FOREIGN},
		{R_X86_64_64, "malloc", at((void *)own_allocator), SLOT_FOREIGN},
		{R_X86_64_JUMP_SLOT, "malloc", at((void *)own_allocator), SLOT_FOREIGN},
		{R_X86_64_JUMP_SLOT, "malloc", at(&writer), SLOT_FOREIGN},
		{R_X86_64_JUMP_SLOT, "malloc", UINT64_MAX, SLOT_FOREIGN},
		{R_X86_64_JUMP_SLOT, "malloc", at(writer.text) + 6, SLOT_UNRESOLVED},
		{R_X86_64_JUMP_SLOT, "malloc", at(writer.text) + 16, SLOT_FOREIGN},
		{R_X86_64_JUMP_SLOT, "malloc", 0x2006, SLOT_EMPTY},
		{R_X86_64_GLOB_DAT, "malloc", at(writer.text) + 6, SLOT_FOREIGN},
		{R_X86_64_GLOB_DAT, "cfree", 0, SLOT_EMPTY},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(rows); i++) {
		enum slot_verdict found =
			verdict(&writer, rows[i].type, rows[i].name, rows[i].value);
		ck_assert_msg(found == rows[i].verdict, "row %zu: verdict %d", i, found);
	}
	elfwriter_deinit(&writer);
}

HT_TEST(definitions_of_a_module)
{
	struct elfwriter writer;
	elfwriter_init(&writer);
	uint32_t own = elfwriter_function(&writer, "malloc", 16);
	ck_assert_int_eq(
		verdict(&writer, R_X86_64_JUMP_SLOT, "malloc", at(writer.text) + 16), SLOT_TAP);
	/* The module itself resolves the symbol to one of its functions. */
	writer.symbol[own].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
	ck_assert_int_eq(
		verdict(&writer, R_X86_64_GLOB_DAT, "malloc", at(writer.text) + 256), SLOT_TAP);
	ck_assert_int_eq(
		verdict(&writer, R_X86_64_GLOB_DAT, "malloc", at(writer.got)), SLOT_FOREIGN);
	writer.symbol[own].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
	ck_assert_int_eq(
		verdict(&writer, R_X86_64_GLOB_DAT, "malloc", at(writer.text) + 16), SLOT_FOREIGN);
	elfwriter_deinit(&writer);
}

HT_TEST(words_that_are_no_whole_pointers)
{
	struct elfwriter writer;
	elfwriter_init(&writer);
	uint32_t symbol = elfwriter_undefined(&writer, "malloc");
	uint64_t *word = elfwriter_slot(&writer, R_X86_64_64, symbol, libc_address("malloc") + 8);
	writer.rela[0].r_addend = 8;
	uint64_t *packed = elfwriter_slot(&writer, R_X86_64_64, symbol, 0);
	writer.rela[1].r_offset += 4;
	uint64_t *other = elfwriter_slot(&writer, R_X86_64_COPY, symbol, libc_address("malloc"));
	uint64_t *twice = elfwriter_slot(&writer, R_X86_64_64, symbol, libc_address("malloc"));
	writer.rela[writer.rela_count++] = writer.rela[3];
	elfwriter_protect(&writer);
	struct view view = view_of(getpid(), 0, 0);
	ck_assert_int_eq(slot_at(&view, at(word))->verdict, SLOT_DATA);
	ck_assert_int_eq(slot_at(&view, at(packed) + 4)->verdict, SLOT_DATA);
	ck_assert_ptr_null(slot_at(&view, at(other)));
	ck_assert_int_eq(slot_at(&view, at(twice))->verdict, SLOT_TAP);
	ck_assert_uint_eq(count_verdict(&view, modules_find(&view.modules, at(word)), SLOT_TAP), 1);
	view_deinit(&view);
	elfwriter_deinit(&writer);
}

HT_TEST(names_are_whole)
{
	static const char *const near[] = {
		"mallo", "malloc_", "xmalloc", "", "posix_memalign_", "posix_memalign__________"};
	struct elfwriter writer;
	elfwriter_init(&writer);
	for (size_t i = 0; i < HT_ARRAY_SIZE(near); i++)
		elfwriter_slot(
			&writer, R_X86_64_GLOB_DAT, elfwriter_undefined(&writer, near[i]), 0);
	uint32_t tail = elfwriter_undefined(&writer, "xfree");
	writer.symbol[tail].st_name++; /* a name that is the end of another */
	uint64_t *word = elfwriter_slot(&writer, R_X86_64_GLOB_DAT, tail, libc_address("free"));
	elfwriter_protect(&writer);
	struct view view = view_of(getpid(), 0, 0);
	const struct module *module = modules_find(&view.modules, at(writer.image));
	size_t slots = 0;
	for (size_t i = 0; i < view.slots.count; i++)
		slots += view.slots.slot[i].module_id == module->id;
	ck_assert_uint_eq(slots, 1);
	ck_assert_int_eq(slot_at(&view, at(word))->hook, ABI_HOOK_FREE);
	view_deinit(&view);
	/* The end of the string table cuts the name off. */
	elfwriter_open(&writer);
	elfwriter_dynamic(&writer, DT_STRSZ)->d_un.d_val--;
	view = view_of(getpid(), 0, 0);
	ck_assert_ptr_null(slot_at(&view, at(word)));
	view_deinit(&view);
	elfwriter_deinit(&writer);
}

HT_TEST(the_dynamic_linker_is_skipped)
{
	struct view view = view_of(getpid(), 0, 0);
	for (size_t i = 0; i < view.slots.count; i++) {
		const struct module *module = modules_find(&view.modules, view.slots.slot[i].addr);
		/* The dynamic linker's own pointer to the function that unlocks its lists. */
		if (view.slots.slot[i].hook == ABI_GUARD_LOADED)
			continue;
		ck_assert_int_eq(module->interpreter || module->vdso,
			view.slots.slot[i].verdict == SLOT_SKIPPED);
	}
	/* Without an interpreter, heaptap skips all modules that the program did not load itself.
	 */
	for (size_t i = 0; i < view.modules.count; i++) {
		view.modules.module[i].interpreter = false;
		view.modules.module[i].order = 0;
	}
	slots_deinit(&view.slots);
	ck_no_err(slots_read(&view.proc, &view.modules, 0, 0, false, &view.slots));
	ck_assert_uint_eq(count_verdict(&view, module_named(&view, "libc.so.6"), SLOT_TAP), 0);
	const struct module *own = modules_find(&view.modules, at((void *)view_of));
	ck_assert_uint_gt(count_verdict(&view, own, SLOT_TAP), 0);
	view_deinit(&view);
}

HT_TEST(corrupt_tables_do_no_harm)
{
	struct elfwriter writer;
	elfwriter_init(&writer);
	elfwriter_function(&writer, "free", 16);
	elfwriter_slot(&writer, R_X86_64_JUMP_SLOT, elfwriter_undefined(&writer, "malloc"),
		libc_address("malloc"));
	elfwriter_slot(&writer, R_X86_64_GLOB_DAT, 1, at(writer.text) + 16);
	elfwriter_protect(&writer);
	elfwriter_open(&writer);
	static uint8_t saved[ELFWRITER_BYTES];
	memcpy(saved, writer.image, sizeof(saved));
	static const uint64_t extremes[] = {0, 1, 8, 4095, 4096, ELFWRITER_BYTES, INT32_MAX,
		UINT32_MAX, INT64_MAX, UINT64_MAX - 7, UINT64_MAX};
	/* Each 8-byte word of headers, tables and dynamic section becomes each extreme value. */
	static const size_t from[] = {0, 4096, 3 * 4096}, to[] = {400, 4096 + 200, 3 * 4096 + 208};
	for (size_t part = 0; part < HT_ARRAY_SIZE(from); part++)
		for (size_t where = from[part]; where < to[part]; where += 8)
			for (size_t i = 0; i < HT_ARRAY_SIZE(extremes); i++) {
				memcpy(writer.image + where, &extremes[i], 8);
				struct view view = view_of(getpid(), 0, 0);
				view_deinit(&view);
				memcpy(writer.image, saved, sizeof(saved));
			}
	elfwriter_deinit(&writer);
}

/* A module says that each of its functions may be malloc; no program has so many. */
HT_TEST(the_number_of_functions_is_limited)
{
	enum { LIBRARIES = 10, SLOTS = 30 };
	struct elfwriter writer[LIBRARIES];
	size_t tapped = 0;
	for (size_t i = 0; i < LIBRARIES; i++) {
		elfwriter_init(&writer[i]);
		uint32_t symbol = elfwriter_function(&writer[i], "malloc", 16);
		writer[i].symbol[symbol].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
		for (size_t k = 0; k < SLOTS; k++)
			elfwriter_slot(
				&writer[i], R_X86_64_GLOB_DAT, symbol, at(writer[i].text) + 16 * k);
		elfwriter_protect(&writer[i]);
	}
	struct view view = view_of(getpid(), 0, 0);
	ck_assert_uint_eq(view.slots.function_count, 256);
	for (size_t i = 0; i < view.slots.count; i++) {
		const struct slot *slot = &view.slots.slot[i];
		ck_assert(slot->verdict != SLOT_TAP || slot->real);
		tapped += modules_find(&view.modules, slot->addr)->order == 0 && slot->real;
	}
	ck_assert_uint_ge(tapped, 200);
	ck_assert_uint_lt(tapped, LIBRARIES * SLOTS);
	ck_assert_uint_ne(view.slots.partial_id, 0);
	view_deinit(&view);
	for (size_t i = 0; i < LIBRARIES; i++)
		elfwriter_deinit(&writer[i]);
	view = view_of(getpid(), 0, 0);
	ck_assert_uint_eq(view.slots.partial_id, 0);
	view_deinit(&view);
}

HT_SUITE("attach/got/slots")
