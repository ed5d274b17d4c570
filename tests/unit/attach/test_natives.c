/* SPDX-License-Identifier: Apache-2.0
 *
 * Linked-in allocators: their functions, the words that lead to them, and the calls that use no
 * such word.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/elf/elf_symbols.h"
#include "attach/elf/modules.h"
#include "attach/got/coverage.h"
#include "attach/helper/pulse.h"
#include "attach/memory/proc_maps.h"
#include "attach/memory/slow.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/compile.h"
#include "tests/support/ht_check.h"

/* Source of a function that does nothing, of a call of it by a word of the GOT, and of calls that
 * use no word. */
#define FUNCTION(name) "void *" #name "(void) { return 0; }\n"
#define LOAD(name)     "__asm__(\".text; call *" #name "@GOTPCREL(%rip)\");\n"
#define CALL(name)     "__asm__(\".text; call " #name "; {disp32} jmp " #name "\");\n"
/* The functions that make heaptap accept others with this prefix. */
#define ALLOCATOR(prefix)                                                                          \
	FUNCTION(prefix##calloc)                                                                   \
	FUNCTION(prefix##free)                                                                     \
	FUNCTION(prefix##mallctl)                                                                  \
	FUNCTION(prefix##mallopt)                                                                  \
	FUNCTION(prefix##register_deferred_free)
#define WAIT "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n"

static const char *const pie[] = {
	"gcc", "-w", "-fno-builtin", "-fPIE", "-pie", "-Wa,-mrelax-relocations=no", NULL};
static const char *const fixed[] = {
	"gcc", "-w", "-fno-builtin", "-fPIE", "-no-pie", "-Wa,-mrelax-relocations=no", NULL};
static const char *const relr[] = {"gcc", "-w", "-fno-builtin", "-fPIE", "-pie",
	"-Wa,-mrelax-relocations=no", "-Wl,-z,pack-relative-relocs", NULL};
static const char *const stripped[] = {
	"gcc", "-w", "-fno-builtin", "-fPIE", "-pie", "-Wa,-mrelax-relocations=no", "-s", NULL};

struct view {
	struct child child;
	struct proc proc;
	struct proc_maps maps;
	struct modules modules;
	struct slots slots;
	struct coverage coverage;
	const struct module *program;
};

typedef void section_change(Elf64_Shdr *section, const char *name, const Elf64_Shdr *rela);

/* Changes section headers of a file; `rela` is its .rela.dyn. */
static void file_change(const char *path, section_change *change)
{
	static const uint8_t any[1];
	struct elf_file file;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	Elf64_Ehdr ehdr;
	ck_assert_int_eq(pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	ck_no_err(elf_file_open(fd, any, 0, NULL, &file));
	ck_assert_uint_gt(file.section_count, 0);
	const Elf64_Shdr *found = elf_file_named(&file, ".rela.dyn");
	Elf64_Shdr rela = found ? *found : (Elf64_Shdr){0};
	for (size_t i = 0; i < file.section_count; i++)
		change(&file.section[i], file.names + file.section[i].sh_name, &rela);
	ssize_t bytes = (ssize_t)(file.section_count * sizeof(*file.section));
	ck_assert_int_eq(pwrite(fd, file.section, (size_t)bytes, (off_t)ehdr.e_shoff), bytes);
	elf_file_close(&file);
	close(fd);
}

/* `change` is applied to the file before the program starts; NULL: nothing is. */
static void view_open_changed(
	const char *const command[], const char *source, section_change *change, struct view *view)
{
	HT_FREED char *path = compile(command, source, NULL);
	ck_assert_ptr_nonnull(path);
	if (change)
		file_change(path, change);
	*view = (struct view){.child = child_exec((const char *[]){path, NULL}, NULL)};
	child_sleeping(&view->child);
	ck_no_err(proc_open(view->child.pid, &view->proc));
	ck_no_err(proc_open_mem(&view->proc));
	ck_no_err(proc_maps_read(&view->proc, &view->maps));
	ck_no_err(modules_read(&view->proc, &view->maps, &view->modules));
	ck_no_err(slots_read(&view->proc, &view->modules, 0, 0, false, &view->slots));
	ck_no_err(coverage_read(
		&view->proc, &view->maps, &view->modules, &view->slots, &view->coverage));
	for (size_t i = 0; i < view->modules.count; i++)
		if (view->modules.module[i].executable)
			view->program = &view->modules.module[i];
	ck_assert_ptr_nonnull(view->program);
}

static void view_open(const char *const command[], const char *source, struct view *view)
{
	view_open_changed(command, source, NULL, view);
}

static void view_close(struct view *view)
{
	coverage_deinit(&view->coverage);
	slots_deinit(&view->slots);
	modules_deinit(&view->modules);
	proc_maps_deinit(&view->maps);
	proc_close(&view->proc);
	child_kill(&view->child);
}

static const struct native *native_named(const struct view *view, const char *name)
{
	const struct natives *natives = &view->program->natives;
	for (size_t i = 0; i < natives->count; i++)
		if (!strcmp(natives->native[i].name, name))
			return &natives->native[i];
	return NULL;
}

/* Returns the program's first slot that leads to `name`; NULL: none. */
static const struct slot *slot_to(const struct view *view, const char *name)
{
	const struct native *native = native_named(view, name);
	for (size_t i = 0; native && i < view->slots.count; i++)
		if (view->slots.slot[i].real == native->addr)
			return &view->slots.slot[i];
	return NULL;
}

static const struct coverage_function *covered(const struct view *view, const char *name)
{
	for (size_t i = 0; i < view->coverage.count; i++)
		if (!strcmp(view->coverage.function[i].native->name, name))
			return &view->coverage.function[i];
	return NULL;
}

static void check_hook(
	const char *const command[], const char *allocator, const char *name, enum abi_hook hook)
{
	char source[4096];
	struct view view;
	snprintf(source, sizeof(source),
		WAIT "%s void *%s(void) { return 0; }\n"
		     "__asm__(\".text; call *%s@GOTPCREL(%%rip)\");\n",
		allocator, name, name);
	view_open(command, source, &view);
	const struct slot *slot = slot_to(&view, name);
	ck_assert_msg(slot != NULL, "no slot leads to %s", name);
	ck_assert_int_eq(slot->hook, hook);
	ck_assert_int_eq(slot->verdict, SLOT_TAP);
	ck_assert_uint_eq(slot->value, slot->real);
	ck_assert_uint_eq(covered(&view, name)->slots, 1);
	ck_assert_uint_eq(view.coverage.places, 0);
	view_close(&view);
}

HT_TEST(names_say_how_a_function_is_called)
{
	check_hook(pie, ALLOCATOR(_rjem_), "_rjem_malloc", ABI_HOOK_MALLOC);
	check_hook(pie, ALLOCATOR(je_), "je_sdallocx", ABI_HOOK_SDALLOCX);
	check_hook(pie, ALLOCATOR(mi_), "mi_malloc_aligned", ABI_HOOK_MALLOCX);
	check_hook(pie, ALLOCATOR(mi_), "mi_free_size_aligned", ABI_HOOK_SDALLOCX);
	check_hook(pie, ALLOCATOR(tc_), "tc_free_sized", ABI_HOOK_FREE_SIZED);
}

/* Words without R_X86_64_RELATIVE: relocated by DT_RELR, and not relocated at all. */
HT_TEST(words_are_found_however_they_are_relocated)
{
	check_hook(relr, ALLOCATOR(_rjem_), "_rjem_realloc", ABI_HOOK_REALLOC);
	check_hook(fixed, ALLOCATOR(_rjem_), "_rjem_realloc", ABI_HOOK_REALLOC);
}

/* A program that has stored `value` in the word that leads to mi_calloc. */
#define STORING(value)                                                                             \
	"#include <unistd.h>\n" ALLOCATOR(mi_) FUNCTION(own)                                       \
		LOAD(mi_calloc) "int main(void) { void *p = " value                                \
				"; __asm__ volatile(\"mov %0, "                                    \
				"mi_calloc@GOTPCREL(%%rip)\" :: \"r\"(p)); for (;;) pause(); }\n"

/* A word to which the program has stored its own function is not tapped. */
HT_TEST(values_decide)
{
	static const char *const norelro[] = {"gcc", "-w", "-fno-builtin", "-fPIE", "-pie",
		"-Wa,-mrelax-relocations=no", "-Wl,-z,norelro", NULL};
	static const struct {
		const char *source;
		enum slot_verdict verdict;
	} cases[] = {{STORING("own"), SLOT_FOREIGN}, {STORING("(void *)0x1000"), SLOT_EMPTY}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		struct view view;
		size_t found = 0;
		view_open(norelro, cases[i].source, &view);
		for (size_t k = 0; k < view.slots.count; k++) {
			const struct slot *slot = &view.slots.slot[k];
			if (slot->type != R_X86_64_RELATIVE || slot->hook == ABI_GUARD_LOADED)
				continue;
			found++;
			ck_assert_int_eq(slot->verdict, cases[i].verdict);
			ck_assert_uint_eq(slot->real, 0);
		}
		ck_assert_uint_eq(found, 1);
		view_close(&view);
	}
}

HT_TEST(usable_size_is_the_familys)
{
	struct view view;
	view_open(pie,
		WAIT ALLOCATOR(_rjem_) ALLOCATOR(mi_) FUNCTION(_rjem_malloc)
			FUNCTION(_rjem_malloc_usable_size) FUNCTION(mi_malloc) LOAD(_rjem_malloc)
				LOAD(mi_malloc) FUNCTION(mi_reallocn) LOAD(mi_reallocn),
		&view);
	/* Not glibc's usable-size function: that is for glibc's own reallocarray, which calls any
	 * realloc. */
	const struct slot *many = slot_to(&view, "mi_reallocn");
	ck_assert_ptr_nonnull(many);
	for (size_t i = 0; i < view.slots.function_count; i++)
		if (view.slots.function[i].addr == many->real)
			ck_assert_uint_eq(view.slots.function[i].usable_size, 0);
	ck_assert_uint_ne(native_named(&view, "_rjem_malloc")->usable_size, 0);
	ck_assert_uint_eq(native_named(&view, "mi_malloc")->usable_size, 0);
	ck_assert_ptr_null(native_named(&view, "_rjem_malloc_usable_size"));
	for (size_t i = 0; i < view.slots.function_count; i++)
		if (view.slots.function[i].addr == native_named(&view, "_rjem_malloc")->addr)
			ck_assert_uint_eq(view.slots.function[i].usable_size,
				native_named(&view, "_rjem_malloc")->usable_size);
	view_close(&view);
}

/* Only malloc, calloc, realloc and free together are an allocator; tc_delete alone is none. */
HT_TEST(a_function_called_free_may_be_anything)
{
	struct view view;
	view_open(pie,
		WAIT FUNCTION(tc_delete) FUNCTION(tc_malloc) FUNCTION(tc_new) LOAD(tc_delete)
			CALL(tc_new),
		&view);
	ck_assert_uint_eq(view.program->natives.count, 0);
	view_close(&view);
	view_open(pie, WAIT FUNCTION(free) FUNCTION(malloc) LOAD(free) LOAD(malloc), &view);
	ck_assert_uint_eq(view.program->natives.count, 0);
	view_close(&view);
	view_open(pie,
		WAIT FUNCTION(free) FUNCTION(malloc) FUNCTION(calloc) FUNCTION(realloc)
			CALL(malloc),
		&view);
	ck_assert_uint_eq(view.program->natives.count, 4);
	ck_assert_uint_eq(covered(&view, "malloc")->places, 2);
	view_close(&view);
}

/* Any number of functions with that prefix, and a version, prove nothing: this is a program's own
 * memory interface, whose mi_malloc takes a context first. */
HT_TEST(a_prefix_may_be_the_programs_own)
{
	static const char *const sources[] = {
#define OWN(prefix)                                                                                \
	WAIT FUNCTION(prefix##malloc) FUNCTION(prefix##free) FUNCTION(prefix##version)             \
		FUNCTION(prefix##init) FUNCTION(prefix##exit) FUNCTION(prefix##open)               \
			FUNCTION(prefix##close) FUNCTION(prefix##read) FUNCTION(_##prefix##write)  \
				FUNCTION(prefix##calloc) LOAD(prefix##malloc)
		OWN(mi_), OWN(tc_), OWN(je_)};
	for (size_t i = 0; i < HT_ARRAY_SIZE(sources); i++) {
		struct view view;
		view_open(pie, sources[i], &view);
		ck_assert_uint_eq(view.program->natives.count, 0);
		ck_assert_uint_eq(view.program->natives.word_count, 0);
		view_close(&view);
	}
}

HT_TEST(a_pointer_in_data_is_no_slot)
{
	struct view view;
	view_open(pie,
		WAIT ALLOCATOR(mi_)
			FUNCTION(mi_malloc) "void *(*volatile keep)(void) = mi_malloc;\n",
		&view);
	ck_assert_ptr_null(slot_to(&view, "mi_malloc"));
	ck_assert_uint_eq(native_named(&view, "mi_malloc")->pointers, 1);
	ck_assert_uint_eq(covered(&view, "mi_malloc")->slots, 0);
	view_close(&view);
}

/* Code can refer to a function without a slot in several ways; calls within the allocator do not
 * count. */
HT_TEST(counts_calls_past_all_slots)
{
	struct view view;
	view_open(pie,
		WAIT ALLOCATOR(_rjem_) ALLOCATOR(mi_) FUNCTION(_rjem_malloc) FUNCTION(mi_new) LOAD(
			_rjem_malloc) CALL(_rjem_malloc)
			LOAD(mi_new) "__asm__(\".text; .globl je_grow; .type je_grow, "
				     "@function; je_grow:"
				     " call _rjem_malloc; ret; .size je_grow, . - je_grow\");\n"
				     "__asm__(\".text; lea _rjem_malloc(%rip), %r13; {disp32} jne "
				     "_rjem_malloc\");\n",
		&view);
	const struct coverage_function *function = covered(&view, "_rjem_malloc");
	ck_assert_uint_eq(function->slots, 1);
	ck_assert_uint_eq(function->places, 4);
	ck_assert_ptr_null(covered(&view, "_rjem_free"));
	/* mi_new may throw, so there is no hook for it. */
	ck_assert_ptr_null(slot_to(&view, "mi_new"));
	ck_assert_uint_eq(covered(&view, "mi_new")->places, 1);
	ck_assert_uint_eq(view.coverage.places, 5);
	char *unseen = coverage_unseen(&view.coverage);
	ck_assert_str_eq(unseen, "jemalloc (_rjem_malloc), mimalloc (mi_new)");
	free(unseen);
	view_close(&view);
}

/* More code than is read at once, and a call at each place where one piece could end. */
HT_TEST(no_call_is_overlooked_between_pieces)
{
	struct view view;
	view_open(pie,
		WAIT ALLOCATOR(mi_) "__asm__(\".text; .rept 500000; call mi_free; .endr\");\n",
		&view);
	ck_assert_uint_eq(covered(&view, "mi_free")->places, 500000);
	view_close(&view);
}

HT_TEST(rust_itself_is_named_only_without_any_slot)
{
	struct view view;
	view_open(pie, WAIT FUNCTION(__rust_alloc) CALL(__rust_alloc) ALLOCATOR(mi_) LOAD(mi_free),
		&view);
	ck_assert_ptr_null(covered(&view, "__rust_alloc"));
	view_close(&view);
}

HT_TEST(without_names_nothing_is_found)
{
	struct view view;
	view_open(stripped, WAIT ALLOCATOR(_rjem_) LOAD(_rjem_free), &view);
	ck_assert_uint_eq(view.program->natives.count, 0);
	view_close(&view);
}

static void put_got_elsewhere(Elf64_Shdr *section, const char *name, const Elf64_Shdr *rela)
{
	(void)rela;
	if (!strcmp(name, ".got"))
		section->sh_addr += 1ul << 40;
}

static const char *const fixed_without_id[] = {"gcc", "-w", "-fno-builtin", "-fPIE", "-no-pie",
	"-Wa,-mrelax-relocations=no", "-Wl,--build-id=none", NULL};
static const char *const pie_without_id[] = {"gcc", "-w", "-fno-builtin", "-fPIE", "-pie",
	"-Wa,-mrelax-relocations=no", "-Wl,--build-id=none", NULL};

HT_TEST(words_lie_in_their_module)
{
	struct view view;
	view_open_changed(fixed_without_id, WAIT ALLOCATOR(_rjem_) LOAD(_rjem_free),
		put_got_elsewhere, &view);
	ck_assert_ptr_nonnull(native_named(&view, "_rjem_free"));
	ck_assert_uint_eq(view.program->natives.word_count, 0);
	view_close(&view);
}

static raddr_t stack_of(const struct view *view)
{
	for (size_t i = 0; i < view->maps.count; i++)
		if (!strcmp(view->maps.map[i].name, "[stack]"))
			return view->maps.map[i].lo;
	return 0;
}

/* A word that lies in no module gets no hook. */
HT_TEST(a_word_of_no_module_is_ignored)
{
	struct view view;
	view_open(pie, WAIT ALLOCATOR(_rjem_) LOAD(_rjem_free), &view);
	raddr_t stack = stack_of(&view);
	ck_assert_uint_eq(view.program->natives.word_count, 1);
	ck_assert_uint_ne(stack, 0);
	view.program->natives.word[0].addr = stack;
	slots_deinit(&view.slots);
	ck_no_err(slots_read(&view.proc, &view.modules, 0, 0, false, &view.slots));
	size_t found = 0;
	for (size_t i = 0; i < view.slots.count; i++) {
		if (view.slots.slot[i].addr != stack)
			continue;
		found++;
		ck_assert_int_eq(view.slots.slot[i].verdict, SLOT_FOREIGN);
		ck_assert_uint_eq(view.slots.slot[i].real, 0);
	}
	ck_assert_uint_eq(found, 1);
	view_close(&view);
}

#define EXTRA(number, flags)                                                                       \
	"__asm__(\".section .extra" #number ",\\\"" flags "\\\"; .quad 0; .previous\");\n"
#define EXTRAS(flags)                                                                              \
	EXTRA(0, flags)                                                                            \
	EXTRA(1, flags)                                                                            \
	EXTRA(2, flags)                                                                            \
	EXTRA(3, flags)                                                                            \
	EXTRA(4, flags)                                                                            \
	EXTRA(5, flags)                                                                            \
	EXTRA(6, flags)                                                                            \
	EXTRA(7, flags)                                                                            \
	EXTRA(8, flags)                                                                            \
	EXTRA(9, flags)                                                                            \
	EXTRA(10, flags)                                                                           \
	EXTRA(11, flags)                                                                           \
	EXTRA(12, flags)                                                                           \
	EXTRA(13, flags) EXTRA(14, flags) EXTRA(15, flags)

/* Each .extra section repeats the relocations of .rela.dyn. */
static void make_relocations(Elf64_Shdr *section, const char *name, const Elf64_Shdr *rela)
{
	if (strncmp(name, ".extra", 6) != 0)
		return;
	section->sh_type = SHT_RELA;
	section->sh_offset = rela->sh_offset;
	section->sh_size = rela->sh_size;
	section->sh_link = rela->sh_link;
}

static void check_relocations(const char *source, bool partial)
{
	struct view view;
	view_open_changed(pie_without_id, source, make_relocations, &view);
	ck_assert_uint_eq(view.program->natives.word_count, 1);
	ck_assert_int_eq(view.program->natives.partial, partial);
	ck_assert_uint_eq(view.coverage.places, partial);
	char *unseen = coverage_unseen(&view.coverage);
	ck_assert_int_eq(strncmp(unseen, "part of /", 9) == 0, partial);
	free(unseen);
	view_close(&view);
}

/* Only relocation sections that are loaded are read, and at most as many as a linker makes; if some
 * are left out, `partial` is set. */
HT_TEST(not_all_relocations_are_read)
{
	check_relocations(WAIT ALLOCATOR(_rjem_) LOAD(_rjem_free) EXTRAS("a"), true);
	check_relocations(WAIT ALLOCATOR(_rjem_) LOAD(_rjem_free) EXTRAS(""), false);
}

static struct ht_err *count_symbol(void *context, const Elf64_Sym *symbol, const char *name)
{
	(void)symbol;
	*(size_t *)context += strlen(name) > 0;
	return NULL;
}

static size_t symbols_of(int fd)
{
	static const uint8_t no_id[1];
	struct elf_file file;
	size_t count = 0;
	ck_no_err(elf_file_open(fd, no_id, 0, NULL, &file));
	ck_no_err(elf_symbols_each(&file, count_symbol, &count));
	elf_file_close(&file);
	return count;
}

/* Symbols of V8, in this program. */
__thread void *current_isolate __asm__("_ZN2v88internal18g_current_isolate_E");
__asm__(".text; .type Builtins_InterpreterEntryTrampoline, @function; "
	"Builtins_InterpreterEntryTrampoline: ret; "
	".size Builtins_InterpreterEntryTrampoline, 1; "
	".type _ZN2v88internal4Heap11MarkCompactEv, @function; "
	"_ZN2v88internal4Heap11MarkCompactEv: ret; nop; "
	".size _ZN2v88internal4Heap11MarkCompactEv, 2; "
	".type _ZN2v88internal4Heap10SetGCStateENS1_9HeapStateE, @function; "
	"_ZN2v88internal4Heap10SetGCStateENS1_9HeapStateE: ret; nop; nop; "
	".size _ZN2v88internal4Heap10SetGCStateENS1_9HeapStateE, 3");

HT_TEST(a_v8_is_found)
{
	struct proc self;
	struct proc_maps maps;
	struct modules modules;
	raddr_t thread;
	__asm__("mov %%fs:0, %0" : "=r"(thread));
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	ck_no_err(proc_maps_read(&self, &maps));
	ck_no_err(modules_read(&self, &maps, &modules));
	const struct module *module = modules_find(&modules, (raddr_t)(uintptr_t)proc_open);
	ck_assert(module && module->executable);
	const struct natives_v8 *v8 = &module->natives.v8;
	ck_assert(v8->has_isolate);
	ck_assert_uint_eq(
		thread - module->tls_bytes + v8->isolate, (raddr_t)(uintptr_t)&current_isolate);
	ck_assert_uint_eq(v8->interpreter_bytes, 1);
	ck_assert_uint_eq(v8->collector, v8->interpreter + 1);
	ck_assert_uint_eq(v8->collector_bytes, 2);
	ck_assert_uint_eq(v8->setter, v8->collector + 2);
	ck_assert_uint_eq(v8->setter_bytes, 3);
	modules_deinit(&modules);
	proc_maps_deinit(&maps);
	proc_close(&self);
}

HT_TEST(names_of_a_whole_program_are_found)
{
	struct view view;
	view_open(pie,
		FUNCTION(prctl) FUNCTION(
			__malloc_arena_thread_freeres) "long syscall(long x, ...) { return x; } "
						       "char _r_debug[9];\n" WAIT,
		&view);
	const struct natives *natives = &view.program->natives;
	ck_assert_uint_eq(natives->guard_count, 2);
	ck_assert(natives->frees_again && natives->debug);
	view_close(&view);
}

/* The directory of debug files may be on another machine, which need not answer. */
HT_TEST(the_guardian_sees_a_debug_file_being_opened)
{
	static const uint8_t id[20];
	struct elf_file file = {.fd = -1, .build_id = id, .build_id_bytes = sizeof(id)};
	size_t count = 0;
	ck_no_err(pulse_start());
	ck_no_err(elf_symbols_each(&file, count_symbol, &count));
	ck_assert_uint_eq(*pulse_watch(), 2);
	ck_assert_uint_eq(count, 0);
}

/* The daemon may have hung on the directory of debug files, so the guardian opens no debug file. */
HT_TEST(an_unkillable_process_opens_no_debug_file)
{
	static const uint8_t id[20];
	struct elf_file file = {.fd = -1, .build_id = id, .build_id_bytes = sizeof(id)};
	size_t count = 0;
	slow_avoid();
	ck_no_err(pulse_start());
	ck_no_err(elf_symbols_each(&file, count_symbol, &count));
	ck_assert_uint_eq(*pulse_watch(), 0);
}

/* Each word of header and section headers becomes each extreme value; the file ends anywhere. */
HT_TEST(hostile_files_do_no_harm)
{
	static const uint64_t extremes[] = {
		0, 1, 8, 4096, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX - 7, UINT64_MAX};
	char *path = compile((const char *[]){"gcc", "-w", "-Wl,--build-id=none", NULL},
		WAIT FUNCTION(mi_malloc), NULL);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	Elf64_Ehdr ehdr;
	ck_assert_int_eq(pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	ck_assert_uint_gt(symbols_of(fd), 3);
	off_t end = (off_t)(ehdr.e_shoff + ehdr.e_shnum * sizeof(Elf64_Shdr));
	for (off_t at = 0; at < end; at += 8) {
		if (at == sizeof(ehdr))
			at = (off_t)ehdr.e_shoff;
		uint64_t saved;
		ck_assert_int_eq(pread(fd, &saved, 8, at), 8);
		for (size_t i = 0; i < HT_ARRAY_SIZE(extremes); i++) {
			ck_assert_int_eq(pwrite(fd, &extremes[i], 8, at), 8);
			symbols_of(fd);
		}
		ck_assert_int_eq(pwrite(fd, &saved, 8, at), 8);
	}
	for (off_t length = end; length > 0; length -= 97) {
		ck_assert_int_eq(ftruncate(fd, length), 0);
		symbols_of(fd);
	}
	close(fd);
	free(path);
}

HT_SUITE("attach/elf/natives")
