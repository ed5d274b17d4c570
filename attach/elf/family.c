/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/family.h"

#include <string.h>

#include "attach/elf/given.h"

/* In order of search: a name without a prefix fits last. */
enum { RJEM, JE, MI, TC, BOEHM, GO, RUST, RUST_DEFAULT, PLAIN, GIVEN };

/*
 * Proof is no name that a program with the same prefix for its own might choose (mi_version), and
 * none that a linker leaves out of an allocator that is used: libraries in Rust are linked function
 * by function.
 */
static const struct family families[] = {
	[RJEM] = {"jemalloc", "_rjem_", "je_",
		{"_rjem_mallctl", "_rjem_je_arena_malloc_hard", "je_arena_malloc_hard"},
		.hooked = true},
	[JE] = {"jemalloc", "je_", NULL, {"je_mallctl"}, .hooked = true},
	[MI] = {"mimalloc", "mi_", "_mi_", {"_mi_malloc_generic", "mi_register_deferred_free"},
		.hooked = true},
	[TC] = {"tcmalloc", "tc_", NULL, {"tc_mallopt", "tc_set_new_mode"}, .hooked = true},
	[BOEHM] = {"the Boehm collector", "GC_", NULL, {NULL}},
	[GO] = {"the Go runtime", "runtime.", NULL, {NULL}},
	[RUST] = {"Rust", "__rust_", NULL, {NULL}, .everywhere = true},
	[RUST_DEFAULT] = {"Rust", "__rdl_", NULL, {NULL}, .everywhere = true},
	[PLAIN] = {"malloc", "", "je_", {NULL}, .hooked = true},
	/* Believed as it stands: no name of its own is in the tables below. */
	[GIVEN] = {"given", "", NULL, {NULL}, .given = true},
};

_Static_assert(HT_ARRAY_SIZE(families) <= FAMILIES_MAX, "family_index");

/* Names beside those of the hooks. A second and third argument is passed on, whatever it means. */
static const struct {
	int family;
	const char *name; /* behind the prefix */
	enum family_role role;
	enum abi_hook hook;
} others[] = {
	{RJEM, "malloc_usable_size", FAMILY_USABLE, 0},
	{JE, "malloc_usable_size", FAMILY_USABLE, 0},
	{PLAIN, "malloc_usable_size", FAMILY_USABLE, 0},
	{MI, "usable_size", FAMILY_USABLE, 0},
	{MI, "zalloc", FAMILY_HOOKED, ABI_HOOK_MALLOC},
	{MI, "malloc_small", FAMILY_HOOKED, ABI_HOOK_MALLOC},
	{MI, "zalloc_small", FAMILY_HOOKED, ABI_HOOK_MALLOC},
	{MI, "mallocn", FAMILY_HOOKED, ABI_HOOK_CALLOC},
	{MI, "malloc_aligned", FAMILY_HOOKED, ABI_HOOK_MALLOCX},
	{MI, "zalloc_aligned", FAMILY_HOOKED, ABI_HOOK_MALLOCX},
	{MI, "rezalloc", FAMILY_HOOKED, ABI_HOOK_REALLOC},
	{MI, "reallocn", FAMILY_HOOKED, ABI_HOOK_REALLOCARRAY},
	{MI, "recalloc", FAMILY_HOOKED, ABI_HOOK_REALLOCARRAY},
	{MI, "realloc_aligned", FAMILY_HOOKED, ABI_HOOK_RALLOCX},
	{MI, "rezalloc_aligned", FAMILY_HOOKED, ABI_HOOK_RALLOCX},
	{MI, "free_size", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{MI, "free_aligned", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{MI, "free_size_aligned", FAMILY_HOOKED, ABI_HOOK_SDALLOCX},
	{MI, "reallocf", FAMILY_UNSEEN, 0},
	{MI, "new", FAMILY_UNSEEN, 0},
	{MI, "new_aligned", FAMILY_UNSEEN, 0},
	{MI, "new_nothrow", FAMILY_HOOKED, ABI_HOOK_MALLOC},
	{MI, "heap_malloc", FAMILY_UNSEEN, 0},
	{MI, "malloc_aligned_at", FAMILY_UNSEEN, 0},
	{TC, "malloc_size", FAMILY_USABLE, 0},
	{TC, "malloc_skip_new_handler", FAMILY_HOOKED, ABI_HOOK_MALLOC},
	{TC, "free_sized", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{TC, "new", FAMILY_UNSEEN, 0},
	{TC, "newarray", FAMILY_UNSEEN, 0},
	{TC, "new_nothrow", FAMILY_HOOKED, ABI_HOOK_MALLOCX},
	{TC, "newarray_nothrow", FAMILY_HOOKED, ABI_HOOK_MALLOCX},
	{TC, "delete", FAMILY_HOOKED, ABI_HOOK_FREE},
	{TC, "deletearray", FAMILY_HOOKED, ABI_HOOK_FREE},
	{TC, "delete_sized", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{TC, "deletearray_sized", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{BOEHM, "malloc", FAMILY_UNSEEN, 0},
	{GO, "mallocgc", FAMILY_UNSEEN, 0},
	{PLAIN, "_Znwm", FAMILY_UNSEEN, 0},
	{PLAIN, "_Znam", FAMILY_UNSEEN, 0},
	{PLAIN, "_ZdlPv", FAMILY_UNSEEN, 0},
	{PLAIN, "_ZdlPvm", FAMILY_UNSEEN, 0},
	{PLAIN, "_ZdaPv", FAMILY_UNSEEN, 0},
	{RUST, "alloc", FAMILY_UNSEEN, 0},
	{RUST_DEFAULT, "alloc", FAMILY_UNSEEN, 0},
};

static const char *const hooked[ABI_HOOK_COUNT] = {
#define X(id, name, shape, arity) #name,
	ABI_HOOKS(X)
#undef X
};

/* Asked of every function of every module: nearly all differ in their first character. */
static bool equals(const char *a, const char *b)
{
	return a[0] == b[0] && strcmp(a, b) == 0;
}

static bool begins(const char *symbol, const char *prefix)
{
	return symbol[0] == prefix[0] && strncmp(symbol, prefix, strlen(prefix)) == 0;
}

static bool member_find(size_t family, const char *name, struct family_member *ret)
{
	*ret = (struct family_member){.family = &families[family]};
	for (size_t i = 0; i < HT_ARRAY_SIZE(others); i++) {
		if ((size_t)others[i].family != family || !equals(name, others[i].name))
			continue;
		ret->role = others[i].role;
		ret->hook = others[i].hook;
		return true;
	}
	for (unsigned i = 0; families[family].hooked && i < ABI_HOOK_COUNT; i++) {
		if (!equals(name, hooked[i]))
			continue;
		ret->hook = (enum abi_hook)i;
		return true;
	}
	return false;
}

bool family_find_known(const char *symbol, struct family_member *ret)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(families); i++) {
		const char *prefix = families[i].prefix;
		if ((!prefix[0] || begins(symbol, prefix)) &&
			member_find(i, symbol + strlen(prefix), ret))
			return true;
	}
	return false;
}

bool family_find(const char *symbol, struct family_member *ret)
{
	size_t index;
	switch (given_match(symbol, &index)) {
	case GIVEN_FUNCTION:
		*ret = (struct family_member){.family = &families[GIVEN],
			.role = FAMILY_HOOKED,
			.hook = (enum abi_hook)given_used()->given[index].hook};
		return true;
	case GIVEN_CLONE:
		*ret = (struct family_member){.family = &families[GIVEN], .role = FAMILY_UNSEEN};
		return true;
	case GIVEN_PART:
	case GIVEN_NONE:
		break;
	}
	return family_find_known(symbol, ret);
}

bool family_is_operator(const char *symbol)
{
	static const char *const begin[] = {"_Znwm", "_Znam", "_ZdlPv", "_ZdaPv"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(begin); i++)
		if (strncmp(symbol, begin[i], strlen(begin[i])) == 0)
			return true;
	return false;
}

/* glibc's, of a thread that ends. */
bool family_frees_again(const char *symbol)
{
	return equals(symbol, "__malloc_arena_thread_freeres");
}

size_t family_index(const struct family *family)
{
	return (size_t)(family - families);
}

bool family_is_inner(const struct family *family, const char *symbol)
{
	size_t index;
	if (family->given)
		return given_match(symbol, &index) != GIVEN_NONE;
	return (family->prefix[0] && begins(symbol, family->prefix)) ||
	       (family->inner && begins(symbol, family->inner));
}

bool family_is_proved(const struct family *family, const char *symbol)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(family->proof) && family->proof[i]; i++)
		if (equals(symbol, family->proof[i]))
			return true;
	return false;
}

const struct family *family_at(size_t index)
{
	return index < HT_ARRAY_SIZE(families) ? &families[index] : NULL;
}
