/* SPDX-License-Identifier: Apache-2.0
 *
 * Which operators new and delete get hooks, and which functions replace those that throw. Operators
 * of an allocator that checks which one was called get none, nor do those of a program's own pool.
 */
#include "attach/got/cxxops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/elf/modules.h"
#include "attach/got/coverage.h"
#include "attach/got/relocs.h"
#include "attach/got/slots.h"
#include "attach/memory/memory.h"
#include "tests/support/child.h"
#include "tests/support/compile.h"
#include "tests/support/ht_check.h"
#include "tests/unit/attach/slotview.h"

#define FUNCTION(name)	  "void *" #name "(void) { return 0; }\n"
#define ALIAS(name, same) "void *" #name "(void) __attribute__((alias(\"" #same "\")));\n"
#define WHOLE		  FUNCTION(malloc) FUNCTION(calloc) FUNCTION(realloc) FUNCTION(free)
#define TCMALLOC                                                                                   \
	FUNCTION(tc_malloc)                                                                        \
	FUNCTION(tc_free)                                                                          \
	FUNCTION(tc_mallopt)                                                                       \
	FUNCTION(tc_new) FUNCTION(tc_malloc_skip_new_handler) FUNCTION(tc_memalign)
#define RELEASE	  FUNCTION(_ZN8tcmalloc27allocate_full_cpp_throw_oomEm)
#define MIMALLOC  FUNCTION(mi_malloc) FUNCTION(mi_free) FUNCTION(mi_register_deferred_free)
#define OPERATORS FUNCTION(_Znwm) FUNCTION(_ZdlPvm) FUNCTION(_ZnwmSt11align_val_t)
#define JEMALLOC  WHOLE OPERATORS
/* The program's own C library needs an allocator that works. */
#define WORKING                                                                                    \
	"void *__libc_malloc(long), *__libc_calloc(long, long), *__libc_realloc(void *, long);\n"  \
	"void __libc_free(void *); void *malloc(long n) { return __libc_malloc(n); }\n"            \
	"void *calloc(long n, long m) { return __libc_calloc(n, m); }\n"                           \
	"void *realloc(void *p, long n) { return __libc_realloc(p, n); }\n"                        \
	"void free(void *p) { __libc_free(p); }\n"
#define WAIT "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n"

static struct child child;

/* Starts the program and reads its slots. `setting` is added to its environment; NULL: nothing. */
static struct view started(const char *path, const char *setting)
{
	child = child_exec(
		(const char *[]){path, NULL}, setting ? (const char *[]){setting, NULL} : NULL);
	child_sleeping(&child);
	return view_of(child.pid, 0, 0);
}

static void view_close(struct view *view)
{
	view_deinit(view);
	child_kill(&child);
}

static const struct native *native_named(const struct view *view, const char *name)
{
	for (size_t m = 0; m < view->modules.count; m++) {
		const struct natives *natives = &view->modules.module[m].natives;
		for (size_t i = 0; i < natives->count; i++)
			if (!strcmp(natives->native[i].name, name))
				return &natives->native[i];
	}
	return NULL;
}

HT_TEST(linked_in)
{
	static const char *const pie[] = {"gcc", "-w", "-fno-builtin", "-fPIE", "-pie", NULL};
	static const struct {
		const char *source, *name;
		bool seen;
		const char *plain; /* NULL: the operator itself is called */
	} cases[] = {
		{JEMALLOC FUNCTION(je_malloc_default), "_Znwm", false, NULL},
		{JEMALLOC FUNCTION(_ZL9handleOOMmb), "_ZdlPvm", false, NULL},
		{JEMALLOC FUNCTION(je_malloc_default) FUNCTION(_ZL9handleOOMmb), "_Znwm", true,
			"malloc"},
		{JEMALLOC FUNCTION(je_malloc_default) FUNCTION(_ZL9handleOOMmb), "_ZdlPvm", true,
			NULL},
		/* The program has no aligned_alloc. */
		{JEMALLOC FUNCTION(je_malloc_default) FUNCTION(_ZL9handleOOMmb),
			"_ZnwmSt11align_val_t", false, NULL},
		{TCMALLOC, "tc_new", false, NULL},
		{TCMALLOC RELEASE, "tc_new", true, "tc_malloc_skip_new_handler"},
		{MIMALLOC FUNCTION(mi_new_aligned) FUNCTION(mi_memalign), "mi_new_aligned", true,
			"mi_memalign"},
		{MIMALLOC FUNCTION(mi_new_n), "mi_new_n", false, NULL},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		char source[4096];
		snprintf(source, sizeof(source), "%s%s", cases[i].source, WAIT);
		char *path = compile(pie, source, NULL);
		struct view view = started(path, NULL);
		const struct native *native = native_named(&view, cases[i].name);
		ck_assert_ptr_nonnull(native);
		ck_assert_msg((native->role == FAMILY_HOOKED) == cases[i].seen, "%s: %zu",
			cases[i].name, i);
		raddr_t plain = cases[i].plain ? native_named(&view, cases[i].plain)->addr : 0;
		ck_assert_uint_eq(native->plain, plain);
		view_close(&view);
		free(path);
	}
}

static const struct slot *slot_named(const struct view *view, const char *name)
{
	for (size_t i = 0; i < view->slots.count; i++)
		if (tap_name_is_operator(view->slots.slot[i].name) &&
			!strcmp(tap_name(view->slots.slot[i].name), name))
			return &view->slots.slot[i];
	return NULL;
}

static const struct slot *slot_now(struct view *view, bool left, raddr_t addr, uint64_t value)
{
	slots_deinit(&view->slots);
	ck_no_err(memory_write_u64(&view->proc, addr, value));
	if (left)
		ck_no_err(slots_read_left(&view->proc, &view->modules, &view->slots));
	else
		ck_no_err(slots_read(&view->proc, &view->modules, 0, 0, false, &view->slots));
	return slot_named(view, "_Znwm");
}

/* A slot that the dynamic linker has not filled yet, or that leads to no module, is listed; one
 * that leads to another function is not. */
static void check_unknown(struct view *view, raddr_t addr, uint64_t value)
{
	for (unsigned left = 0; left < 2; left++) {
		ck_assert_int_eq(slot_now(view, left, addr, 0)->verdict, SLOT_EMPTY);
		ck_assert_int_eq(slot_now(view, left, addr, 0x700000001000)->verdict, SLOT_FOREIGN);
		ck_assert_ptr_null(slot_now(view, left, addr, value + 1));
		ck_assert_int_eq(slot_now(view, left, addr, value)->verdict, SLOT_TAP);
	}
}

/* A program that takes its operators from a library. */
HT_TEST(by_slots)
{
	static const struct {
		const char *soname, *source;
		const char *plain; /* NULL: there is no slot */
	} cases[] = {
		{"libjemalloc.so.2", WORKING OPERATORS FUNCTION(mallocx) FUNCTION(aligned_alloc),
			"malloc"},
		{"libjemalloc.so.2", WORKING OPERATORS FUNCTION(aligned_alloc), NULL},
		{"libother.so", WORKING OPERATORS FUNCTION(mallocx) FUNCTION(aligned_alloc), NULL},
		{"libtcmalloc.so.4",
			WORKING TCMALLOC ALIAS(_Znwm, tc_new) FUNCTION(_ZdlPvm) RELEASE,
			"tc_malloc_skip_new_handler"},
		{"libtcmalloc_debug.so.4", WORKING TCMALLOC ALIAS(_Znwm, tc_new) FUNCTION(_ZdlPvm),
			NULL},
		{"libpool.so", WORKING TCMALLOC RELEASE FUNCTION(_Znwm) FUNCTION(_ZdlPvm), NULL},
	};
	static const char calling[] =
		"#include <unistd.h>\nvoid *_Znwm(long); void _ZdlPvm(void *, long);\n"
		"int main(void) { _ZdlPvm(_Znwm(8), 8); for (;;) pause(); }\n";
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		char soname[128];
		snprintf(soname, sizeof(soname), "-Wl,-soname,%s", cases[i].soname);
		char *library = compile((const char *[]){"gcc", "-w", "-fno-builtin", "-fPIC",
						"-shared", soname, NULL},
			cases[i].source, NULL);
		char setting[512];
		snprintf(setting, sizeof(setting), "LD_PRELOAD=%s", library);
		/* Links the program to the library, so the program's dependency has the library's
		 * name. */
		char *path = compile((const char *[]){"gcc", "-w", "-Wl,-z,now", NULL}, calling,
			(const char *[]){library, NULL});
		struct view view = started(path, setting);
		const struct slot *new_slot = slot_named(&view, "_Znwm");
		const struct slot *delete_slot = slot_named(&view, "_ZdlPvm");
		ck_assert_msg(!!new_slot == !!cases[i].plain, "%s: %zu", cases[i].soname, i);
		ck_assert_int_eq(!!delete_slot, !!cases[i].plain);
		ck_assert_int_eq(slots_have_operators(&view.slots), !!cases[i].plain);
		if (new_slot) {
			const struct module *module = modules_find(&view.modules, new_slot->real);
			raddr_t plain;
			ck_assert_int_eq(new_slot->verdict, SLOT_TAP);
			ck_assert_int_eq(new_slot->hook, ABI_NEW_BYTES);
			ck_assert_int_eq(delete_slot->hook, ABI_HOOK_DALLOCX);
			ck_no_err(module_symbol(&view.proc, module, cases[i].plain, NULL, &plain));
			ck_assert_uint_ne(plain, 0);
			ck_assert_uint_eq(slots_function(&view.slots, new_slot)->plain, plain);
			ck_assert_uint_eq(slots_function(&view.slots, delete_slot)->plain, 0);
		}
		/* slots_read_left must not list an operator without a slot either. */
		if (!new_slot) {
			slots_deinit(&view.slots);
			ck_no_err(slots_read_left(&view.proc, &view.modules, &view.slots));
			ck_assert_ptr_null(slot_named(&view, "_Znwm"));
		}
		if (new_slot)
			check_unknown(&view, new_slot->addr, new_slot->value);
		view_close(&view);
		free(library);
		free(path);
	}
}

/* The library calls _rjem_malloc by a GOT word, and _rjem_free by its own PLT: both slots are
 * found. */
HT_TEST(named_words_of_a_library)
{
	char *library = compile((const char *[]){"gcc", "-w", "-fno-builtin", "-fPIC", "-shared",
					"-Wa,-mrelax-relocations=no", NULL},
		FUNCTION(_rjem_malloc) FUNCTION(_rjem_calloc) FUNCTION(_rjem_free) FUNCTION(
			_rjem_mallctl) "__asm__(\".text; call *_rjem_malloc@GOTPCREL(%rip)\");\n"
				       "void again(void) { _rjem_free(); }\n",
		NULL);
	char *path = compile((const char *[]){"gcc", "-w", "-Wl,--no-as-needed", NULL}, WAIT,
		(const char *[]){library, NULL});
	struct view view = started(path, NULL);
	static const char *const names[] = {"_rjem_malloc", "_rjem_free"};
	for (size_t n = 0; n < HT_ARRAY_SIZE(names); n++) {
		const struct native *native = native_named(&view, names[n]);
		const struct slot *found = NULL;
		ck_assert_ptr_nonnull(native);
		for (size_t i = 0; i < view.slots.count; i++)
			if (view.slots.slot[i].real == native->addr)
				found = &view.slots.slot[i];
		ck_assert_ptr_nonnull(found);
	}
	view_close(&view);
	free(library);
	free(path);
}

/* Calls of a name that has no hook are not recorded, wherever they are made. */
HT_TEST(what_a_library_is_asked_for)
{
	struct coverage coverage;
	char *library =
		compile((const char *[]){"gcc", "-w", "-fno-builtin", "-fPIC", "-shared", NULL},
			MIMALLOC FUNCTION(mi_strdup) FUNCTION(mi_heap_malloc), NULL);
	char *path = compile((const char *[]){"gcc", "-w", "-Wl,-z,now", NULL},
		"#include <unistd.h>\nvoid *mi_malloc(long), mi_free(void *), *mi_strdup(char *);\n"
		"int main(void) { mi_free(mi_malloc(8)); mi_strdup(0); for (;;) pause(); }\n",
		(const char *[]){library, NULL});
	char setting[512];
	snprintf(setting, sizeof(setting), "LD_PRELOAD=%s", library);
	struct view view = started(path, setting);
	size_t told = 0;
	ck_no_err(coverage_read(&view.proc, &view.maps, &view.modules, &view.slots, &coverage));
	ck_assert_uint_eq(coverage.places, 1);
	for (size_t i = 0; i < coverage.count; i++) {
		const char *name = coverage.function[i].native->name;
		ck_assert_str_ne(name, "mi_heap_malloc");
		told += !strcmp(name, "mi_strdup") && coverage.function[i].places == 1;
	}
	ck_assert_uint_eq(told, 1);
	coverage_deinit(&coverage);
	view_close(&view);
	free(library);
	free(path);
}

HT_SUITE("attach/cxxops")
