/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of taps: one row for each word in the target that leads to an allocator's function,
 * with its hook, what its thunk needs, its turn, or why it stays as it is. doctor prints the table;
 * capture/tap carries it out. Nothing else decides.
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/plan/entries.h"

/* The order of the writes: guards; frees, so that no recorded allocation loses its free; what frees
 * and allocates; allocations. What is mapped likewise. */
enum taps_turn { TAPS_GUARDS, TAPS_FREES, TAPS_BOTH, TAPS_ALLOCATIONS, TAPS_TURNS };

enum taps_why {
	TAPS_WANTED,
	TAPS_NO_FUNCTION,  /* the slot leads to none that is known: slot->verdict says why */
	TAPS_AT_ENTRY,	   /* its function is hooked at its entry */
	TAPS_NOT_FOLLOWED, /* of what starts programs or children, when these are not recorded */
	TAPS_REFUSED,	   /* the function cannot be hooked at its entry: entry->why; or its calls
			    * are seen in the function that it calls */
	TAPS_DONE,	   /* the function is hooked at its entry already */
};

struct taps_row {
	const struct slot *slot;     /* of the survey; NULL: the word is code, of `entry` */
	struct entry *entry;	     /* NULL: a slot */
	const struct module *module; /* that holds the slot; NULL: an entry, or it is gone */
	struct image_thunk thunk;    /* if TAPS_WANTED */
	enum taps_turn turn;
	enum taps_why why;
};

/* Entries first, then slots by their address. Borrows from survey and entries: valid until either
 * changes. */
struct taps {
	struct taps_row *row;
	size_t count;
};

struct taps_follow {
	bool execs; /* guards of execs, too */
	bool forks; /* and of what makes children */
};

/* Decides by what is known; reads and changes nothing. Free with taps_deinit. */
HT_MUST_CHECK
struct ht_err *taps_plan(const struct survey *survey, const struct entries *entries,
	struct taps_follow follow, struct taps *ret);
void taps_deinit(struct taps *taps);
/* What doctor says of a slot, such as "tap (not bound yet)". */
const char *taps_words(const struct taps_row *row);
