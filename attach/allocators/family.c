/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/allocators/family.h"

#include <stdio.h>
#include <string.h>

#include "attach/allocators/given.h"
#include "attach/allocators/hooks.h"

/* In the order of the search: names without a prefix come last. */
enum { RJEM, JE, MI, TC, BOEHM, GO, RUST, RUST_DEFAULT, PLAIN, GIVEN };

/* A proof is neither a name that a program with the same prefix might choose (mi_version) nor one
 * that a linker drops from a used allocator: Rust libraries are linked function by function. */
static const struct family families[] = {
	[RJEM] = {"jemalloc", "_rjem_", "je_",
		{"_rjem_mallctl", "_rjem_je_arena_malloc_hard", "je_arena_malloc_hard"},
		.hooked = true},
	[JE] = {"jemalloc", "je_", NULL, {"je_mallctl"}, .hooked = true},
	[MI] = {"mimalloc", "mi_", "_mi_", {"_mi_malloc_generic", "mi_register_deferred_free"},
		.hooked = true},
	[TC] = {"tcmalloc", "tc_", NULL, {"tc_mallopt", "tc_set_new_mode"},
		.release = {FAMILY_TCMALLOC_RELEASE}, .hooked = true},
	[BOEHM] = {"the Boehm collector", "GC_", NULL, {NULL}},
	[GO] = {"the Go runtime", "runtime.", NULL, {NULL}},
	[RUST] = {"Rust", "__rust_", NULL, {NULL}, .everywhere = true},
	[RUST_DEFAULT] = {"Rust", "__rdl_", NULL, {NULL}, .everywhere = true},
	/* handleOOM stands in the same file as the operators new of a linked-in jemalloc: if the
	 * program had operators of its own, the linker would have left out that file. */
	[PLAIN] = {"malloc", "", "je_", {NULL}, .release = {"_ZL9handleOOMmb", "je_malloc_default"},
		.hooked = true},
	/* Needs no proof: the tables below have no name of this family. */
	[GIVEN] = {"given", "", NULL, {NULL}, .given = true},
};

_Static_assert(HT_ARRAY_SIZE(families) <= FAMILIES_MAX, "family_index");

/* Names other than those of the hooks. A hook passes on a second and a third argument, whatever
 * they mean. */
static const struct {
	int family;
	const char *name; /* follows the prefix */
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
	{MI, "new_realloc", FAMILY_UNSEEN, 0},
	{MI, "new_reallocn", FAMILY_UNSEEN, 0},
	{MI, "strdup", FAMILY_UNSEEN, 0},
	{MI, "strndup", FAMILY_UNSEEN, 0},
	{MI, "realpath", FAMILY_UNSEEN, 0},
	{MI, "calloc_aligned", FAMILY_UNSEEN, 0},
	{MI, "recalloc_aligned", FAMILY_UNSEEN, 0},
	{MI, "zalloc_aligned_at", FAMILY_UNSEEN, 0},
	{MI, "realloc_aligned_at", FAMILY_UNSEEN, 0},
	{MI, "heap_malloc", FAMILY_UNSEEN, 0},
	{MI, "heap_malloc_small", FAMILY_UNSEEN, 0},
	{MI, "heap_malloc_aligned", FAMILY_UNSEEN, 0},
	{MI, "heap_mallocn", FAMILY_UNSEEN, 0},
	{MI, "heap_zalloc", FAMILY_UNSEEN, 0},
	{MI, "heap_calloc", FAMILY_UNSEEN, 0},
	{MI, "heap_realloc", FAMILY_UNSEEN, 0},
	{MI, "heap_strdup", FAMILY_UNSEEN, 0},
	{MI, "malloc_aligned_at", FAMILY_UNSEEN, 0},
	{TC, "malloc_size", FAMILY_USABLE, 0},
	{TC, "malloc_skip_new_handler", FAMILY_HOOKED, ABI_HOOK_MALLOC},
	{TC, "delete", FAMILY_HOOKED, ABI_HOOK_FREE},
	{TC, "deletearray", FAMILY_HOOKED, ABI_HOOK_FREE},
	{TC, "delete_sized", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{TC, "deletearray_sized", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{TC, "delete_nothrow", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{TC, "deletearray_nothrow", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{TC, "delete_aligned", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{TC, "deletearray_aligned", FAMILY_HOOKED, ABI_HOOK_DALLOCX},
	{TC, "delete_sized_aligned", FAMILY_HOOKED, ABI_HOOK_SDALLOCX},
	{TC, "deletearray_sized_aligned", FAMILY_HOOKED, ABI_HOOK_SDALLOCX},
	{TC, "delete_aligned_nothrow", FAMILY_HOOKED, ABI_HOOK_SDALLOCX},
	{TC, "deletearray_aligned_nothrow", FAMILY_HOOKED, ABI_HOOK_SDALLOCX},
	{BOEHM, "malloc", FAMILY_UNSEEN, 0},
	{GO, "mallocgc", FAMILY_UNSEEN, 0},
	{RUST, "alloc", FAMILY_UNSEEN, 0},
	{RUST_DEFAULT, "alloc", FAMILY_UNSEEN, 0},
};

/* Functions that throw, or call a handler that may, and what the hook calls instead; both follow
 * the prefix. */
static const struct {
	int family;
	const char *name;
	enum abi_hook hook;
	const char *plain;
} news[] = {
	{MI, "new", ABI_NEW_BYTES, "malloc"},
	{MI, "new_nothrow", ABI_NEW_BYTES, "malloc"},
	{MI, "new_n", ABI_NEW_COUNT, "mallocn"},
	{MI, "new_aligned", ABI_NEW_ALIGNED, "memalign"},
	{MI, "new_aligned_nothrow", ABI_NEW_ALIGNED, "memalign"},
	{TC, "new", ABI_NEW_BYTES, "malloc_skip_new_handler"},
	{TC, "newarray", ABI_NEW_BYTES, "malloc_skip_new_handler"},
	{TC, "new_nothrow", ABI_NEW_BYTES, "malloc_skip_new_handler"},
	{TC, "newarray_nothrow", ABI_NEW_BYTES, "malloc_skip_new_handler"},
	{TC, "new_aligned", ABI_NEW_ALIGNED, "memalign"},
	{TC, "newarray_aligned", ABI_NEW_ALIGNED, "memalign"},
	{TC, "new_aligned_nothrow", ABI_NEW_ALIGNED, "memalign"},
	{TC, "newarray_aligned_nothrow", ABI_NEW_ALIGNED, "memalign"},
};

/* St11align_val_t: an alignment; RKSt9nothrow_t: NULL instead of an exception; m: the size. */
static const struct family_operator operators[] = {
	{"_Znwm", ABI_NEW_BYTES},
	{"_Znam", ABI_NEW_BYTES},
	{"_ZnwmRKSt9nothrow_t", ABI_NEW_BYTES},
	{"_ZnamRKSt9nothrow_t", ABI_NEW_BYTES},
	{"_ZnwmSt11align_val_t", ABI_NEW_ALIGNED},
	{"_ZnamSt11align_val_t", ABI_NEW_ALIGNED},
	{"_ZnwmSt11align_val_tRKSt9nothrow_t", ABI_NEW_ALIGNED},
	{"_ZnamSt11align_val_tRKSt9nothrow_t", ABI_NEW_ALIGNED},
	{"_ZdlPv", ABI_HOOK_FREE},
	{"_ZdaPv", ABI_HOOK_FREE},
	{"_ZdlPvm", ABI_HOOK_DALLOCX},
	{"_ZdaPvm", ABI_HOOK_DALLOCX},
	{"_ZdlPvRKSt9nothrow_t", ABI_HOOK_DALLOCX},
	{"_ZdaPvRKSt9nothrow_t", ABI_HOOK_DALLOCX},
	{"_ZdlPvSt11align_val_t", ABI_HOOK_DALLOCX},
	{"_ZdaPvSt11align_val_t", ABI_HOOK_DALLOCX},
	{"_ZdlPvmSt11align_val_t", ABI_HOOK_SDALLOCX},
	{"_ZdaPvmSt11align_val_t", ABI_HOOK_SDALLOCX},
	{"_ZdlPvSt11align_val_tRKSt9nothrow_t", ABI_HOOK_SDALLOCX},
	{"_ZdaPvSt11align_val_tRKSt9nothrow_t", ABI_HOOK_SDALLOCX},
};

_Static_assert(HT_ARRAY_SIZE(operators) == FAMILY_OPERATORS, "FAMILY_OPERATORS");

static bool equals(const char *a, const char *b)
{
	return a[0] == b[0] && strcmp(a, b) == 0;
}

/* Returns which of the `count` names `symbol` is, as a bit; a list may end early, by NULL. */
static unsigned name_bit(const char *const *names, size_t count, const char *symbol)
{
	unsigned found = 0;
	for (size_t i = 0; i < count && names[i]; i++)
		found |= (unsigned)equals(symbol, names[i]) << i;
	return found;
}

static bool begins(const char *symbol, const char *prefix)
{
	return symbol[0] == prefix[0] && strncmp(symbol, prefix, strlen(prefix)) == 0;
}

bool family_is_operator(const char *symbol)
{
	for (size_t i = 0; i < FAMILY_OPERATORS; i++)
		if (equals(symbol, operators[i].name))
			return true;
	return false;
}

const struct family_operator *family_operator(size_t index)
{
	return &operators[index];
}

#define NAME_BYTES  40u
#define MEMBERS_MAX 320u
#define NO_MEMBER   UINT16_MAX

struct known_member {
	char name[NAME_BYTES];
	struct family_member member;
	uint16_t next; /* in the same bucket, in the order of the search */
};

struct known {
	struct known_member member[MEMBERS_MAX];
	size_t count;
	uint16_t first[1u << BEGINNING_BITS];
	size_t own[FAMILY_NAMES_MAX]; /* see family_name */
	size_t own_count;
};

static void known_add(struct known *known, const char *name, struct family_member member)
{
	struct known_member *added = &known->member[known->count];
	const struct family *family = member.family;
	snprintf(added->name, NAME_BYTES, "%s%s", family->prefix, name);
	added->member = member;
	added->next = NO_MEMBER;
	uint16_t *at = &known->first[beginning_hash(added->name)];
	while (*at != NO_MEMBER)
		at = &known->member[*at].next;
	*at = (uint16_t)known->count;
	if (family->hooked && family->prefix[0] && member.role == FAMILY_HOOKED &&
		known->own_count < FAMILY_NAMES_MAX)
		known->own[known->own_count++] = known->count;
	known->count++;
}

static void operators_add(struct known *known)
{
	for (size_t i = 0; i < FAMILY_OPERATORS; i++) {
		enum abi_hook hook = operators[i].hook;
		known_add(known, operators[i].name,
			(struct family_member){.family = &families[PLAIN],
				.hook = hook,
				.plain = hook == ABI_NEW_BYTES	   ? "malloc"
					 : hook == ABI_NEW_ALIGNED ? "aligned_alloc"
								   : NULL,
				.if_released = true});
	}
}

static void family_add(struct known *known, size_t at)
{
	const struct family *family = &families[at];
	for (size_t i = 0; i < HT_ARRAY_SIZE(others); i++)
		if ((size_t)others[i].family == at)
			known_add(known, others[i].name,
				(struct family_member){.family = family,
					.role = others[i].role,
					.hook = others[i].hook});
	for (size_t i = 0; i < HT_ARRAY_SIZE(news); i++)
		if ((size_t)news[i].family == at)
			known_add(known, news[i].name,
				(struct family_member){.family = family,
					.hook = news[i].hook,
					.plain = news[i].plain,
					.if_released = true});
	if (at == PLAIN)
		operators_add(known);
	for (enum abi_hook i = 0; family->hooked && i < ABI_ALLOCATOR_COUNT; i++)
		if (!abi_is_new(i))
			known_add(known, hook_name(i),
				(struct family_member){.family = family, .hook = i});
}

static const struct known *known_names(void)
{
	static struct known known;
	if (known.count)
		return &known;
	memset(known.first, 0xff, sizeof(known.first));
	for (size_t f = 0; f < HT_ARRAY_SIZE(families); f++)
		family_add(&known, f);
	return &known;
}

_Static_assert(HT_ARRAY_SIZE(others) + HT_ARRAY_SIZE(news) + FAMILY_OPERATORS +
			       HT_ARRAY_SIZE(families) * ABI_ALLOCATOR_COUNT <=
		       MEMBERS_MAX,
	"all of them fit");

size_t family_name_count(void)
{
	return known_names()->own_count;
}

const char *family_name(size_t index)
{
	const struct known *known = known_names();
	return known->member[known->own[index]].name;
}

bool family_find_known(const char *symbol, struct family_member *ret)
{
	const struct known *known = known_names();
	for (size_t i = known->first[beginning_hash(symbol)]; i != NO_MEMBER;
		i = known->member[i].next) {
		if (strcmp(symbol, known->member[i].name) != 0)
			continue;
		*ret = known->member[i].member;
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

/* Part of glibc, for a thread that ends. */
#define FREES_AGAIN "__malloc_arena_thread_freeres"

bool family_frees_again(const char *symbol)
{
	return equals(symbol, FREES_AGAIN);
}

static void signs_add(const struct family *family, struct beginnings *beginnings)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(family->proof) && family->proof[i]; i++)
		beginnings_add(beginnings, family->proof[i]);
	for (size_t i = 0; i < HT_ARRAY_SIZE(family->release) && family->release[i]; i++)
		beginnings_add(beginnings, family->release[i]);
}

void family_add_beginnings(struct beginnings *beginnings)
{
	const struct known *known = known_names();
	for (size_t i = 0; i < known->count; i++)
		beginnings_add(beginnings, known->member[i].name);
	for (size_t f = 0; f < HT_ARRAY_SIZE(families); f++)
		signs_add(&families[f], beginnings);
	beginnings_add(beginnings, FREES_AGAIN);
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
	return name_bit(family->proof, HT_ARRAY_SIZE(family->proof), symbol) != 0;
}

unsigned family_is_release(const struct family *family, const char *symbol)
{
	return name_bit(family->release, HT_ARRAY_SIZE(family->release), symbol);
}

unsigned family_whole_release(const struct family *family)
{
	unsigned whole = 0;
	for (unsigned i = 0; i < HT_ARRAY_SIZE(family->release) && family->release[i]; i++)
		whole |= 1u << i;
	return whole;
}

bool family_is_plain(const struct family *family, const char *plain, const char *symbol)
{
	size_t length = strlen(family->prefix);
	return strncmp(symbol, family->prefix, length) == 0 && equals(symbol + length, plain);
}

const struct family *family_at(size_t index)
{
	return index < HT_ARRAY_SIZE(families) ? &families[index] : NULL;
}
