/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of taps: one row for each word in the target that leads to an allocator function, with
 * the hook, the data of its thunk, its turn, or why the word stays as it is. doctor prints the
 * table, and capture/tap carries it out. Nothing else decides what is hooked.
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/plan/entries.h"

/* The order of the writes: guards; frees, so that no recorded allocation loses its free; functions
 * that free and allocate; allocations. Functions that map memory follow the same order. */
enum taps_turn { TAPS_GUARDS, TAPS_FREES, TAPS_BOTH, TAPS_ALLOCATIONS, TAPS_TURNS };

enum taps_why {
	TAPS_WANTED,
	TAPS_NO_FUNCTION,  /* the slot leads to no known function: slot->verdict says why */
	TAPS_AT_ENTRY,	   /* its function is hooked at its entry */
	TAPS_NOT_FOLLOWED, /* starts programs or children, and these are not recorded */
	TAPS_REFUSED,	   /* cannot be hooked at its entry: entry->why; or forwards to a hooked
			      function, which sees its calls */
	TAPS_DONE,	   /* the function is hooked at its entry already */
};

struct taps_row {
	const struct slot *slot;     /* of the survey; NULL: the word is code, of `entry` */
	struct entry *entry;	     /* NULL: a slot */
	const struct module *module; /* with the slot; NULL: an entry, or module gone */
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
	bool execs; /* also guard functions that exec */
	bool forks; /* also guard functions that make children */
};

/* Makes the table from what was read; reads and changes nothing in the target. Free with
 * taps_deinit. */
HT_MUST_CHECK
struct ht_err *taps_plan(const struct survey *survey, const struct entries *entries,
	struct taps_follow follow, struct taps *ret);
void taps_deinit(struct taps *taps);
/* The words of doctor about the row's slot, which must not be NULL, such as "tap (not bound yet)".
 */
const char *taps_words(const struct taps_row *row);
