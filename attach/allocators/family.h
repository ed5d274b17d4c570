/* SPDX-License-Identifier: Apache-2.0
 *
 * The names under which allocators bring their functions into a program, and which hook sees the
 * calls of each. The only place to change when a name is to be known.
 */
#pragma once

#include "attach/allocators/beginnings.h"
#include "format/abi_hooks.h"
#include "format/base.h"

/* What a symbol is to an allocator. */
enum family_role {
	FAMILY_HOOKED, /* called like the function of `hook` */
	FAMILY_USABLE, /* tells the usable bytes of a block */
	FAMILY_UNSEEN, /* allocates or frees, and has no hook: it may throw, or is called otherwise
			*/
};

struct family {
	const char *allocator; /* "jemalloc" */
	const char *prefix;    /* of its functions' names; "": those of the C library */
	const char *inner;     /* of the names of its own parts, beside `prefix`; NULL: none */
	const char *proof[3];  /* functions, one of which none but that allocator has */
	/* Functions that are there where its operators new are its own, and may have another one in
	 * their place: not in a debug form of it, nor where a program has brought others. None:
	 * they always are */
	const char *release[2];
	bool hooked;	 /* some of its functions have hooks */
	bool everywhere; /* in every program of its kind, whatever it allocates by */
	bool given;	 /* its functions are those that were given (given.h) */
};

#define FAMILIES_MAX 16u

struct family_member {
	const struct family *family;
	enum family_role role;
	enum abi_hook hook; /* FAMILY_HOOKED only */
	/* What is called in the place of one of ABI_NEWS, without the prefix */
	const char *plain;
	/* Without that one, or what `family.release` says, it is FAMILY_UNSEEN */
	bool if_released;
};

#define FAMILY_TCMALLOC_RELEASE "_ZN8tcmalloc27allocate_full_cpp_throw_oomEm"

/* Operators new and delete of C++, by number. */
#define FAMILY_OPERATORS 20u
struct family_operator {
	const char *name;   /* as symbol tables have it */
	enum abi_hook hook; /* where it is an allocator's own */
};
const struct family_operator *family_operator(size_t index);

/* Names with a prefix of functions that have hooks, by number below the count. */
#define FAMILY_NAMES_MAX 160u
size_t family_name_count(void);
const char *family_name(size_t index);

/* False: no function of an allocator is called that. Those that were given are of a family of their
 * own, whatever other has such names. */
bool family_find(const char *symbol, struct family_member *ret);
/* The same, without those that were given. */
bool family_find_known(const char *symbol, struct family_member *ret);
/* Is it one of C++'s operators new and delete? */
bool family_is_operator(const char *symbol);
/* Bit by bit, which of `family.release` it is; all that there are. */
unsigned family_is_release(const struct family *family, const char *symbol);
unsigned family_whole_release(const struct family *family);
/* Is it the member's plain function? */
bool family_is_plain(const struct family *family, const char *plain, const char *symbol);
/* Does a function of that name free what its thread has cached, blocks that were freed before, by
 * the C library's free itself? */
bool family_frees_again(const char *symbol);
size_t family_index(const struct family *family); /* below FAMILIES_MAX */
/* Is a function of that name a part of the family's allocator itself, as far as names tell? */
bool family_is_inner(const struct family *family, const char *symbol);
/* Is a function of that name proof that the family's allocator is there? */
bool family_is_proved(const struct family *family, const char *symbol);
/* Adds all names of which any of these functions says something, but those that were given. */
void family_add_beginnings(struct beginnings *beginnings);
/* The family of that index; NULL: none. */
const struct family *family_at(size_t index);
