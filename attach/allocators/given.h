/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of a program's own allocator, named by the user (--alloc-fn). One list for the whole
 * heaptap process, used wherever symbols and slots of a target are read.
 */
#pragma once

#include "format/abi_hooks.h"
#include "format/base.h"
#include "format/err.h"

#define GIVEN_MAX	 16u
#define GIVEN_NAME_BYTES 128u /* including the NUL */

/* `name` has the signature of the function of `hook`. */
struct given {
	char name[GIVEN_NAME_BYTES];
	uint32_t hook; /* enum abi_hook */
};

struct given_list {
	uint32_t count;
	struct given given[GIVEN_MAX];
};

/* Is a list from another process well-formed? */
bool given_is_whole(const struct given_list *list);

/* Replaces the list of this process by a copy of `list`. Modules read before do not change. */
void given_use(const struct given_list *list);
/* Number of calls of given_use. */
uint32_t given_generation(void);
const struct given_list *given_used(void);

/* The role of a symbol in the list. */
enum given_match {
	GIVEN_NONE,
	GIVEN_FUNCTION, /* has one of the names */
	GIVEN_CLONE, /* a compiler's copy of one, called in its place but with another signature */
	GIVEN_PART,  /* a part of one that stands elsewhere (.cold) */
};

/* `*ret_index`: the place in the list, unless GIVEN_NONE. */
enum given_match given_match(const char *symbol, size_t *ret_index);
