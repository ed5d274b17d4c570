/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of a program's own allocator, as who calls heaptap names them (--alloc-fn): there is
 * one list of them for a process of ours, used wherever the symbols and slots of a target are read.
 */
#pragma once

#include "format/abi_hooks.h"
#include "format/base.h"
#include "format/err.h"

#define GIVEN_MAX	 16u
#define GIVEN_NAME_BYTES 128u /* with its NUL */

/* The function `name` is called like that of `hook`. */
struct given {
	char name[GIVEN_NAME_BYTES];
	uint32_t hook; /* enum abi_hook */
};

struct given_list {
	uint32_t count;
	struct given given[GIVEN_MAX];
};

/* A list that somebody else has written: may it be used? */
bool given_is_whole(const struct given_list *list);

/* The process's own list is a copy of `list` from now on. Modules that were read before know
 * nothing of it. */
void given_use(const struct given_list *list);
/* How often that was done. */
uint32_t given_generation(void);
const struct given_list *given_used(void);

/* What a symbol is to that list. */
enum given_match {
	GIVEN_NONE,
	GIVEN_FUNCTION, /* it has one of the names */
	GIVEN_CLONE,	/* what a compiler has made of one: called in its place, in its own way */
	GIVEN_PART,	/* of one, that stands elsewhere (.cold) */
};

/* `ret_index`: in the list; unless it is none. */
enum given_match given_match(const char *symbol, size_t *ret_index);
