/* SPDX-License-Identifier: Apache-2.0
 *
 * Which definition a name is bound to, among made-up libraries: a result is given only if it is
 * certain.
 */
#include "attach/got/scope.h"

#include "attach/allocators/given.h"

#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/elfwriter.h"
#include "tests/support/ht_check.h"

enum { PROGRAM, FIRST, SECOND, LATER, LIBRARIES };

static struct proc self;
static struct elfwriter writer[LIBRARIES];
static struct module module[LIBRARIES];
static const struct modules modules = {.module = module, .count = LIBRARIES};
static struct scope scope;

/* Makes the libraries in the order in which a dynamic linker would load them, the last by dlopen;
 * none defines or refers to anything yet. */
static void setup(void)
{
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	for (uint32_t i = 0; i < LIBRARIES; i++) {
		elfwriter_init(&writer[i]);
		raddr_t lo = (raddr_t)(uintptr_t)writer[i].image;
		module[i] = (struct module){.id = i + 1,
			.bias = lo,
			.lo = lo,
			.hi = lo + ELFWRITER_BYTES,
			.text_lo = (raddr_t)(uintptr_t)writer[i].text,
			.text_hi = (raddr_t)(uintptr_t)writer[i].text + HT_PAGE_BYTES,
			.order = i + 1,
			.initial = i != LATER,
			.executable = i == PROGRAM,
			.dynamic = (raddr_t)(uintptr_t)writer[i].dynamic,
			.dynamic_bytes = 1024};
	}
}

static raddr_t define(size_t library, const char *name, size_t offset)
{
	elfwriter_function(&writer[library], name, offset);
	return (raddr_t)(uintptr_t)(writer[library].text + offset);
}

/* Begins the look-ups; their results are kept until bound_anew(). */
static void look(void)
{
	for (size_t i = 0; i < LIBRARIES; i++) {
		elfwriter_open(&writer[i]);
		elfwriter_protect(&writer[i]);
	}
	ck_no_err(scope_init(&self, &modules, &scope));
}

static raddr_t bound(size_t library, enum abi_hook hook)
{
	raddr_t addr = 1;
	ck_no_err(scope_bind(&scope, &module[library], hook, 0, &addr));
	return addr;
}

/* As bound(), but looks all names up anew: the libraries or their order have changed. */
static raddr_t bound_anew(size_t library, enum abi_hook hook)
{
	scope_deinit(&scope);
	look();
	return bound(library, hook);
}

HT_TEST(the_only_definition)
{
	setup();
	raddr_t addr = define(SECOND, "malloc", 16);
	elfwriter_undefined(&writer[PROGRAM], "malloc");
	look();
	for (size_t i = 0; i < LIBRARIES; i++)
		ck_assert_uint_eq(bound(i, ABI_HOOK_MALLOC), addr);
	ck_assert_uint_eq(bound(PROGRAM, ABI_HOOK_FREE), 0);
	scope_deinit(&scope);
}

/* A library that was loaded later may prefer its own definitions, or those of libraries loaded with
 * it. */
HT_TEST(the_first_in_load_order)
{
	setup();
	define(SECOND, "malloc", 16);
	raddr_t addr = define(FIRST, "malloc", 32);
	look();
	ck_assert_uint_eq(bound(PROGRAM, ABI_HOOK_MALLOC), addr);
	ck_assert_uint_eq(bound(FIRST, ABI_HOOK_MALLOC), addr);
	ck_assert_uint_eq(bound(LATER, ABI_HOOK_MALLOC), 0);
	/* The load order decides, not the address. */
	module[FIRST].order = 3;
	module[SECOND].order = 2;
	ck_assert_uint_eq(bound_anew(PROGRAM, ABI_HOOK_MALLOC),
		(raddr_t)(uintptr_t)(writer[SECOND].text + 16));
	scope_deinit(&scope);
}

/* Replaces a dynamic entry that has no meaning here. */
static void say(size_t library, Elf64_Sxword tag, uint64_t value)
{
	elfwriter_open(&writer[library]);
	Elf64_Dyn *entry = elfwriter_dynamic(&writer[library], DT_RELACOUNT);
	*entry = (Elf64_Dyn){.d_tag = tag, .d_un.d_val = value};
}

/* Only DT_SYMBOLIC puts a library's own definition first. */
HT_TEST(its_own_definition_behind_another)
{
	static const Elf64_Dyn says[] = {{DT_RELACOUNT, {0}}, {DT_FLAGS, {DF_BIND_NOW}},
		{DT_FLAGS, {DF_SYMBOLIC | DF_BIND_NOW}}, {DT_SYMBOLIC, {0}}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(says); i++) {
		setup();
		raddr_t addr = define(FIRST, "malloc", 16);
		define(SECOND, "malloc", 32);
		say(SECOND, says[i].d_tag, says[i].d_un.d_val);
		look();
		ck_assert_uint_eq(bound(SECOND, ABI_HOOK_MALLOC), i < 2 ? addr : 0);
		scope_deinit(&scope);
	}
}

/* A reference to malloc@GLIBC_2.2.5 is never bound to malloc@OWN_1.0, even if that comes first. */
HT_TEST(versions_tell_names_apart)
{
	setup();
	raddr_t addr = define(FIRST, "malloc", 16);
	define(SECOND, "malloc", 32);
	say(SECOND, DT_VERDEFNUM, 2);
	look();
	ck_assert_uint_eq(bound(PROGRAM, ABI_HOOK_MALLOC), addr);
	say(FIRST, DT_VERDEFNUM, 2);
	ck_assert_uint_eq(bound_anew(PROGRAM, ABI_HOOK_MALLOC), 0);
	elfwriter_open(&writer[SECOND]);
	elfwriter_dynamic(&writer[SECOND], DT_VERDEFNUM)->d_tag = DT_RELACOUNT;
	elfwriter_dynamic(&writer[SECOND], DT_RELACOUNT)->d_un.d_val = 0;
	ck_assert_uint_eq(bound_anew(PROGRAM, ABI_HOOK_MALLOC), addr);
	scope_deinit(&scope);
}

HT_TEST(later_module_is_not_first)
{
	setup();
	define(SECOND, "malloc", 16);
	define(LATER, "malloc", 32);
	module[LATER].order = 1;
	module[PROGRAM].order = 4;
	look();
	ck_assert_uint_eq(bound(PROGRAM, ABI_HOOK_MALLOC), 0);
	scope_deinit(&scope);
}

HT_TEST(names_stay_in_their_namespace)
{
	setup();
	raddr_t first = define(FIRST, "malloc", 16), later = define(LATER, "malloc", 32);
	module[LATER].space = 1;
	look();
	ck_assert_uint_eq(bound(PROGRAM, ABI_HOOK_MALLOC), first);
	ck_assert_uint_eq(bound(LATER, ABI_HOOK_MALLOC), later);
	scope_deinit(&scope);
}

/* The dynamic linker lets an auditor (la_symbind64) replace each binding by any address. */
HT_TEST(an_auditor_binds_as_it_likes)
{
	setup();
	raddr_t addr = define(FIRST, "malloc", 16);
	define(LATER, "la_symbind64", 32);
	look();
	ck_assert_uint_eq(bound(PROGRAM, ABI_HOOK_MALLOC), addr); /* a name of the program's own */
	module[LATER].space = 1;
	ck_assert_uint_eq(bound_anew(PROGRAM, ABI_HOOK_MALLOC), 0);
	ck_assert_uint_eq(bound(FIRST, ABI_HOOK_MALLOC), 0);
	scope_deinit(&scope);
}

/* The dynamic linker does not search modules that it does not list. */
HT_TEST(modules_in_no_list_are_ignored)
{
	setup();
	define(SECOND, "malloc", 16);
	module[SECOND].order = 0;
	look();
	ck_assert_uint_eq(bound(PROGRAM, ABI_HOOK_MALLOC), 0);
	module[SECOND].order = 3;
	module[SECOND].interpreter = true;
	ck_assert_uint_eq(bound_anew(PROGRAM, ABI_HOOK_MALLOC), 0);
	module[SECOND].interpreter = false;
	module[SECOND].vdso = true;
	ck_assert_uint_eq(bound_anew(PROGRAM, ABI_HOOK_MALLOC), 0);
	module[SECOND].vdso = false;
	ck_assert_uint_ne(bound_anew(PROGRAM, ABI_HOOK_MALLOC), 0);
	scope_deinit(&scope);
}

/* Symbols whose address only the program's resolver knows, data, and addresses outside of the text.
 */
HT_TEST(indirect_and_data_symbols)
{
	setup();
	define(FIRST, "malloc", 16);
	Elf64_Sym *symbol = &writer[FIRST].symbol[1];
	look();
	ck_assert_uint_ne(bound(PROGRAM, ABI_HOOK_MALLOC), 0);
	static const unsigned char others[] = {STT_GNU_IFUNC, STT_OBJECT, STT_TLS};
	for (size_t i = 0; i < HT_ARRAY_SIZE(others); i++) {
		elfwriter_open(&writer[FIRST]);
		symbol->st_info = ELF64_ST_INFO(STB_GLOBAL, others[i]);
		ck_assert_uint_eq(bound_anew(PROGRAM, ABI_HOOK_MALLOC), 0);
	}
	elfwriter_open(&writer[FIRST]);
	symbol->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	symbol->st_value = 3 * HT_PAGE_BYTES;
	ck_assert_uint_eq(bound_anew(PROGRAM, ABI_HOOK_MALLOC), 0);
	elfwriter_open(&writer[FIRST]);
	symbol->st_value = 2 * HT_PAGE_BYTES;
	ck_assert_uint_eq(bound_anew(PROGRAM, ABI_HOOK_MALLOC), module[FIRST].text_lo);
	scope_deinit(&scope);
}

/* Several versions of a name count as one function if their address is the same, else as none. */
HT_TEST(several_of_one_name)
{
	setup();
	raddr_t addr = define(FIRST, "malloc", 16);
	define(FIRST, "malloc", 16);
	define(FIRST, "free", 32);
	define(FIRST, "free", 48);
	look();
	ck_assert_uint_eq(bound(PROGRAM, ABI_HOOK_MALLOC), addr);
	ck_assert_uint_eq(bound(PROGRAM, ABI_HOOK_FREE), 0);
	scope_deinit(&scope);
}

HT_TEST(each_name_is_looked_up_once)
{
	const struct scope_name *name, *again;
	const struct dynamic *dynamic;
	setup();
	define(FIRST, "malloc", 16);
	look();
	ck_no_err(scope_name(&scope, &module[FIRST], ABI_HOOK_MALLOC, &name));
	ck_assert(name->known && name->count == 1);
	ck_assert_uint_eq(name->symbol[0].st_value, 2 * HT_PAGE_BYTES + 16);
	ck_no_err(scope_dynamic(&scope, &module[FIRST], &dynamic));
	ck_assert_uint_eq(dynamic->lo, module[FIRST].lo);
	elfwriter_open(&writer[FIRST]);
	writer[FIRST].symbol[1].st_value = 2 * HT_PAGE_BYTES + 32;
	ck_no_err(scope_name(&scope, &module[FIRST], ABI_HOOK_MALLOC, &again));
	ck_assert_ptr_eq(again, name);
	ck_assert_uint_eq(again->symbol[0].st_value, 2 * HT_PAGE_BYTES + 16);
	scope_deinit(&scope);
}

HT_TEST(usable_size_is_looked_up_once)
{
	raddr_t found;
	setup();
	raddr_t first = define(FIRST, "malloc_usable_size", 16);
	look();
	ck_no_err(scope_usable_size(&scope, &module[FIRST], &found));
	ck_assert_uint_eq(found, first);
	ck_no_err(scope_usable_size(&scope, &module[SECOND], &found));
	ck_assert_uint_eq(found, 0);
	uint64_t steps = scope.budget.steps;
	ck_no_err(scope_usable_size(&scope, &module[FIRST], &found));
	ck_assert_uint_eq(found, first);
	ck_assert_uint_eq(scope.budget.steps, steps);
	scope_deinit(&scope);
}

/* The longest name that --alloc-fn takes. */
HT_TEST(a_long_name)
{
	char name[GIVEN_NAME_BYTES];
	raddr_t addr;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	setup();
	define(FIRST, "malloc", 16);
	look();
	ck_no_err(scope_symbol(&scope, &module[FIRST], name, &addr));
	ck_assert_uint_eq(addr, 0);
	scope_deinit(&scope);
}

HT_TEST(lookups_come_to_an_end)
{
	const struct scope_name *name;
	setup();
	define(FIRST, "malloc", 16);
	define(SECOND, "malloc", 16);
	look();
	uint64_t steps = scope.budget.steps;
	ck_no_err(scope_name(&scope, &module[FIRST], ABI_HOOK_MALLOC, &name));
	ck_assert_uint_eq(name->count, 1);
	ck_assert_uint_eq(scope.partial_id, 0);
	scope.budget.steps = steps - scope.budget.steps - 1;
	ck_no_err(scope_name(&scope, &module[SECOND], ABI_HOOK_MALLOC, &name));
	ck_assert_uint_eq(name->count, 0);
	ck_assert_uint_eq(scope.partial_id, module[SECOND].id);
	ck_assert_uint_eq(bound(PROGRAM, ABI_HOOK_FREE), 0);
	ck_assert_uint_eq(scope.partial_id, module[SECOND].id);
	scope_deinit(&scope);
}

HT_SUITE("attach/got/scope")
