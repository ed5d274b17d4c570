/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that are hooked at their entry: which of the linked-in functions these are, and where
 * their pads and bridges are. A function is hooked at its entry or by its slots, never both.
 */
#pragma once

#include "attach/inject/near.h"
#include "attach/plan/entry.h"

enum entries_mode {
	ENTRIES_SLOT, /* no function */
	ENTRIES_AUTO, /* those with calls that pass no slot */
	ENTRIES_ALL,  /* all functions for which it is possible */
};

struct entries {
	struct entry *entry;
	size_t count;
	raddr_t near[ABI_NEAR_MAX];
	size_t near_count;
	size_t hooked;		       /* number of hooked functions, without guarded ones */
	const struct entry *unguarded; /* should be guarded and cannot be; NULL: none */
};

/* Decides which functions are hooked; reads only. Notes the result in the survey's coverage and
 * entry_count. Free with entries_deinit. */
HT_MUST_CHECK
struct ht_err *entries_plan(struct survey *survey, enum entries_mode mode, struct entries *ret);
/* HT_ERR_REFUSED if a static program cannot be recorded by these entries. */
HT_MUST_CHECK
struct ht_err *entries_check(
	const struct survey *survey, enum entries_mode mode, const struct entries *entries);
void entries_deinit(struct entries *entries);
/* Is the function at `addr` hooked at its entry? */
bool entries_has(const struct entries *entries, raddr_t addr);
/* If the function at `addr` is hooked at its first instruction, returns the address that calls it
 * without the hook; otherwise returns `addr`. */
raddr_t entries_past(const struct entries *entries, raddr_t addr);
/* Writes the bridges into the image. */
void entries_write_bridges(const struct entries *entries, const struct image *image);
/* Writes the pad, which leads to `thunk`. */
void entries_write_pad(const struct entries *entries, const struct entry *entry,
	const struct image *image, raddr_t thunk);
/* "jemalloc: free (it loops to its first instruction)": the functions that should be hooked and
 * cannot be; "": none. malloc'd; NULL: no memory. */
char *entries_refused(const struct entries *entries);
