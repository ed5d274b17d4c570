/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/allocators/family.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/ht_check.h"

#define OTHER_NAMES 100000u

static const struct {
	const char *name, *allocator;
	enum family_role role;
	enum abi_hook hook;
	const char *plain;
} members[] = {
	{"malloc", "malloc", FAMILY_HOOKED, ABI_HOOK_MALLOC, NULL},
	{"reallocarray", "malloc", FAMILY_HOOKED, ABI_HOOK_REALLOCARRAY, NULL},
	{"malloc_usable_size", "malloc", FAMILY_USABLE, 0, NULL},
	{"_Znwm", "malloc", FAMILY_HOOKED, ABI_NEW_BYTES, "malloc"},
	{"_ZnamSt11align_val_tRKSt9nothrow_t", "malloc", FAMILY_HOOKED, ABI_NEW_ALIGNED,
		"aligned_alloc"},
	{"_ZdlPvSt11align_val_tRKSt9nothrow_t", "malloc", FAMILY_HOOKED, ABI_HOOK_SDALLOCX, NULL},
	{"_rjem_sdallocx", "jemalloc", FAMILY_HOOKED, ABI_HOOK_SDALLOCX, NULL},
	{"_rjem_malloc_usable_size", "jemalloc", FAMILY_USABLE, 0, NULL},
	{"je_free", "jemalloc", FAMILY_HOOKED, ABI_HOOK_FREE, NULL},
	{"mi_mallocn", "mimalloc", FAMILY_HOOKED, ABI_HOOK_CALLOC, NULL},
	{"mi_heap_strdup", "mimalloc", FAMILY_UNSEEN, 0, NULL},
	{"mi_new_n", "mimalloc", FAMILY_HOOKED, ABI_NEW_COUNT, "mallocn"},
	{"tc_deletearray_sized_aligned", "tcmalloc", FAMILY_HOOKED, ABI_HOOK_SDALLOCX, NULL},
	{"tc_malloc_size", "tcmalloc", FAMILY_USABLE, 0, NULL},
	{"tc_new", "tcmalloc", FAMILY_HOOKED, ABI_NEW_BYTES, "malloc_skip_new_handler"},
	{"GC_malloc", "the Boehm collector", FAMILY_UNSEEN, 0, NULL},
	{"runtime.mallocgc", "the Go runtime", FAMILY_UNSEEN, 0, NULL},
	{"__rust_alloc", "Rust", FAMILY_UNSEEN, 0, NULL},
	{"__rdl_alloc", "Rust", FAMILY_UNSEEN, 0, NULL},
};

HT_TEST(members_are_found_by_their_whole_names)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(members); i++) {
		struct family_member found;
		const char *name = members[i].name;
		ck_assert_msg(family_find_known(name, &found), "%s", name);
		ck_assert_str_eq(found.family->allocator, members[i].allocator);
		ck_assert_msg(
			found.role == members[i].role && found.hook == members[i].hook, "%s", name);
		ck_assert_pstr_eq(found.plain, members[i].plain);
	}
}

static void check_not_found(const char *name)
{
	struct family_member found;
	ck_assert_msg(!family_find_known(name, &found), "%s", name);
}

static void check_own(const char *name)
{
	struct family_member found;
	/* The list has room for 39 bytes of a name: this one was not cut. */
	ck_assert_uint_lt(strlen(name) + 1, 40);
	ck_assert_msg(family_find_known(name, &found), "%s", name);
	ck_assert(found.family->hooked && found.family->prefix[0]);
	ck_assert_int_eq(found.role, FAMILY_HOOKED);
	ck_assert_int_eq(strncmp(name, found.family->prefix, strlen(found.family->prefix)), 0);
}

HT_TEST(every_name_with_a_prefix_is_found)
{
	/* A full list could lack names. */
	ck_assert_uint_lt(family_name_count(), FAMILY_NAMES_MAX);
	ck_assert_uint_gt(family_name_count(), 4 * ABI_HOOK_COUNT);
	for (size_t i = 0; i < family_name_count(); i++) {
		const char *name = family_name(i);
		char other[64];
		check_own(name);
		for (size_t k = 0; k < i; k++)
			ck_assert_str_ne(name, family_name(k));
		snprintf(other, sizeof(other), "%s_", name);
		check_not_found(other);
		snprintf(other, sizeof(other), "_%s", name);
		check_not_found(other);
	}
	check_not_found("");
}

HT_TEST(operators_are_found)
{
	for (size_t i = 0; i < FAMILY_OPERATORS; i++) {
		const struct family_operator *operator= family_operator(i);
		struct family_member found;
		ck_assert_msg(family_find_known(operator->name, &found), "%s", operator->name);
		ck_assert_int_eq(found.hook, operator->hook);
		ck_assert(found.if_released);
		ck_assert(family_is_operator(operator->name));
	}
}

static void check_signs(const struct beginnings *beginnings, const struct family *family)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(family->proof) && family->proof[i]; i++) {
		ck_assert(family_is_proved(family, family->proof[i]));
		ck_assert_msg(
			beginnings_may_have(beginnings, family->proof[i]), "%s", family->proof[i]);
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(family->release) && family->release[i]; i++) {
		ck_assert_uint_eq(family_is_release(family, family->release[i]), 1u << i);
		ck_assert_msg(beginnings_may_have(beginnings, family->release[i]), "%s",
			family->release[i]);
	}
}

/* Names that the filter rejects are never looked up, so it must pass each known name. */
HT_TEST(no_name_is_lost_by_its_beginning)
{
	struct beginnings beginnings = {0};
	const struct family *family;
	family_add_beginnings(&beginnings);
	for (size_t i = 0; i < HT_ARRAY_SIZE(members); i++)
		ck_assert_msg(
			beginnings_may_have(&beginnings, members[i].name), "%s", members[i].name);
	for (size_t i = 0; i < family_name_count(); i++)
		ck_assert_msg(
			beginnings_may_have(&beginnings, family_name(i)), "%s", family_name(i));
	for (size_t i = 0; i < FAMILY_OPERATORS; i++)
		ck_assert_msg(beginnings_may_have(&beginnings, family_operator(i)->name), "%s",
			family_operator(i)->name);
	for (size_t i = 0; (family = family_at(i)); i++)
		check_signs(&beginnings, family);
	ck_assert(family_frees_again("__malloc_arena_thread_freeres"));
	ck_assert(beginnings_may_have(&beginnings, "__malloc_arena_thread_freeres"));
}

/* About a twentieth of the filter's bits are set, so about as many of the other names pass. */
HT_TEST(most_other_names_are_rejected_by_their_beginning)
{
	struct beginnings beginnings = {0};
	size_t passed = 0;
	family_add_beginnings(&beginnings);
	for (size_t i = 0; i < OTHER_NAMES; i++) {
		char name[64];
		snprintf(name, sizeof(name), "_ZN2v88internal%zuSome%zuEv", i % 97, i);
		passed += beginnings_may_have(&beginnings, name);
	}
	ck_assert_uint_lt(passed, OTHER_NAMES / 8);
	ck_assert_uint_gt(passed, 0);
}

HT_SUITE("attach/allocators/family")
