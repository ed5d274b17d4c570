/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/allocators/given_add.h"

#include <stdio.h>
#include <string.h>

#include "attach/allocators/family.h"
#include "attach/got/relocs.h"
#include "tests/support/ht_check.h"

static struct given_list list;

static void use(const char *const given[])
{
	list = (struct given_list){0};
	for (; *given; given++)
		ck_no_err(given_add(&list, *given));
	given_use(&list);
}

HT_TEST(names_and_kinds)
{
	use((const char *[]){"my_alloc=malloc", "_ZN5arena4freeEPv=free", "x$1.lto_priv.0=sdallocx",
		"tc_malloc=malloc", NULL});
	ck_assert_uint_eq(list.count, 4);
	ck_assert_str_eq(list.given[1].name, "_ZN5arena4freeEPv");
	ck_assert_uint_eq(list.given[1].hook, ABI_HOOK_FREE);
	ck_assert_uint_eq(list.given[2].hook, ABI_HOOK_SDALLOCX);
	ck_assert_str_eq(tap_name(TAP_NAME_GIVEN), "my_alloc");
	ck_assert_str_eq(tap_name(ABI_HOOK_FREE), "free");
}

HT_TEST(what_is_refused)
{
	static const struct {
		const char *text, *why;
	} wrong[] = {
		{"", "NAME=KIND"},
		{"my_alloc", "NAME=KIND"},
		{"=malloc", "name of a function"},
		{"my alloc=malloc", "name of a function"},
		{"1st=malloc", "name of a function"},
		{"my_alloc=", "KIND must be"},
		{"my_alloc=Malloc", "KIND must be"},
		{"my_alloc=malloc=free", "KIND must be"},
		{"my_alloc=mmap", "KIND must be"},
		{"my_alloc=prctl", "KIND must be"},
		{"malloc=malloc", "needs no option"},
		{"munmap=free", "needs no option"},
		{"execve=free", "needs no option"},
		{"_Znwm=malloc", "may throw"},
		{"mi_new=malloc", "may throw"},
		{"runtime.mallocgc=malloc", "a calling convention of its own"},
		{"malloc_usable_size=malloc", "a calling convention of its own"},
		{"given=free", "already given"},
	};
	use((const char *[]){"given=malloc", NULL});
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++)
		ck_err_says(given_add(&list, wrong[i].text), HT_ERR_USAGE, wrong[i].why);
	ck_assert_uint_eq(list.count, 1);
}

HT_TEST(as_long_and_as_many_as_there_is_room)
{
	char text[GIVEN_NAME_BYTES + 16];
	list = (struct given_list){0};
	memset(text, 'a', sizeof(text));
	snprintf(text + GIVEN_NAME_BYTES, 16, "=free");
	ck_err_says(given_add(&list, text), HT_ERR_USAGE, "127 characters");
	ck_no_err(given_add(&list, text + 1));
	for (unsigned i = 1; i < GIVEN_MAX; i++) {
		snprintf(text, sizeof(text), "f%u=free", i);
		ck_no_err(given_add(&list, text));
	}
	ck_err_says(given_add(&list, "one_more=free"), HT_ERR_USAGE, "16 functions");
	ck_assert(given_is_whole(&list));
}

/* The list in a journal may be an attacker's. */
HT_TEST(lists_of_others)
{
	use((const char *[]){"one=malloc", "two=free", NULL});
	struct given_list bad = list;
	bad.count = GIVEN_MAX + 1;
	ck_assert(!given_is_whole(&bad));
	bad = list;
	bad.given[1].hook = ABI_HOOK_COUNT;
	ck_assert(!given_is_whole(&bad));
	bad = list;
	memset(bad.given[0].name, 'a', sizeof(bad.given[0].name));
	ck_assert(!given_is_whole(&bad));
	bad = list;
	bad.given[0].name[0] = '\0';
	ck_assert(!given_is_whole(&bad));
	ck_assert(given_is_whole(&list));
}

HT_TEST(a_family_of_their_own)
{
	struct family_member member;
	use((const char *[]){"get=malloc", "get_more=realloc", "tc_free=free", NULL});
	ck_assert(family_find("get", &member));
	ck_assert_str_eq(member.family->allocator, "given");
	ck_assert_int_eq(member.role, FAMILY_HOOKED);
	ck_assert_int_eq(member.hook, ABI_HOOK_MALLOC);
	const struct family *given = member.family;
	ck_assert(family_find("get_more", &member));
	ck_assert_int_eq(member.hook, ABI_HOOK_REALLOC);
	/* A given name also wins over a family that has the same name. */
	ck_assert(family_find("tc_free", &member));
	ck_assert_ptr_eq(member.family, given);
	ck_assert(family_find("tc_malloc", &member));
	ck_assert_ptr_ne(member.family, given);
	ck_assert(!family_find("ge", &member));
	ck_assert(!family_find("getter", &member));
	ck_assert(family_is_inner(given, "get"));
	ck_assert(family_is_inner(given, "get_more"));
	ck_assert(!family_is_inner(given, "main"));
	use((const char *[]){NULL});
	ck_assert(!family_find("get", &member));
}

/* A compiler that knows the callers may have made a clone of the function for them. */
HT_TEST(clones)
{
	struct family_member member;
	use((const char *[]){"get=malloc", NULL});
	ck_assert(family_find("get.part.0", &member));
	ck_assert_int_eq(member.role, FAMILY_UNSEEN);
	ck_assert(family_find("get.constprop.0", &member));
	ck_assert_int_eq(member.role, FAMILY_UNSEEN);
	ck_assert(family_is_inner(member.family, "get.part.0"));
	ck_assert(!family_find("get.cold", &member));
	ck_assert(!family_find("get.part.0.cold", &member));
}

HT_SUITE("attach/allocators/given")
