/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of allocator functions, and the hook for the calls of each. The only place to change
 * for a new name.
 */
#pragma once

#include "attach/allocators/beginnings.h"
#include "format/abi_hooks.h"
#include "format/base.h"

/* The role of a symbol in an allocator. */
enum family_role {
	FAMILY_HOOKED, /* has the signature of the function of `hook` */
	FAMILY_USABLE, /* returns the usable size of a block */
	FAMILY_UNSEEN, /* allocates or frees, but has no hook: it may throw, or has another
			  signature */
};

struct family {
	const char *allocator; /* "jemalloc" */
	const char *prefix;    /* prefix of its functions' names; "": the names of the C library */
	const char *inner;     /* prefix of its internal functions, beside `prefix`; NULL: none */
	const char *proof[3];  /* functions that only this allocator has; one of them proves it */
	/* Functions that exist where the operators new of the allocator are its own and can be
	 * hooked: missing in a debug build, and where a program brings other operators. Empty: the
	 * operators always are. */
	const char *release[2];
	bool hooked;	 /* some of its functions have hooks; false for `given` */
	bool everywhere; /* part of every program of its kind, whatever that allocates with */
	bool given;	 /* the family of the functions that the user has named (given.h) */
};

#define FAMILIES_MAX 16u

struct family_member {
	const struct family *family;
	enum family_role role;
	enum abi_hook hook; /* FAMILY_HOOKED only */
	/* For a function of ABI_NEWS: what the hook calls instead, without the prefix */
	const char *plain;
	/* FAMILY_UNSEEN unless all functions of `family.release` are there, and for a function of
	 * ABI_NEWS also `plain` */
	bool if_released;
};

#define FAMILY_TCMALLOC_RELEASE "_ZN8tcmalloc27allocate_full_cpp_throw_oomEm"

/* Operators new and delete of C++, by number. */
#define FAMILY_OPERATORS 20u
struct family_operator {
	const char *name;   /* as symbol tables have it */
	enum abi_hook hook; /* for an operator of an allocator */
};
const struct family_operator *family_operator(size_t index);

/* Prefixed names of functions with hooks, by number below the count. */
#define FAMILY_NAMES_MAX 160u
size_t family_name_count(void);
const char *family_name(size_t index);

/* Finds the role of `symbol`; false: no allocator has such a function. A function that the user has
 * named belongs to the family "given", whatever other family has the name. */
bool family_find(const char *symbol, struct family_member *ret);
/* As family_find, without the functions that the user has named. */
bool family_find_known(const char *symbol, struct family_member *ret);
/* Is it an operator new or delete of C++? */
bool family_is_operator(const char *symbol);
/* The bit for the symbol's position in `family.release`; 0: it is not in there.
 * family_whole_release: the bits of all; 0: the family has none. */
unsigned family_is_release(const struct family *family, const char *symbol);
unsigned family_whole_release(const struct family *family);
/* Is `symbol` the function that a hook calls in place of the member (family_member.plain)? */
bool family_is_plain(const struct family *family, const char *plain, const char *symbol);
/* Does the function free again, by the C library's free itself, blocks that its thread has cached
 * after a free? */
bool family_frees_again(const char *symbol);
size_t family_index(const struct family *family); /* below FAMILIES_MAX */
/* Does the name belong to an internal function of the family's allocator? */
bool family_is_inner(const struct family *family, const char *symbol);
/* Does a function of that name prove that the family's allocator is there? */
bool family_is_proved(const struct family *family, const char *symbol);
/* Adds all names that the functions above know, except those that the user has named. */
void family_add_beginnings(struct beginnings *beginnings);
/* The family with that index; NULL: none. */
const struct family *family_at(size_t index);
