/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks through a thread's stacks for words that lead into our code. Conservative: it finds every
 * return address and every PC that a signal frame will restore; some of what it finds is stale.
 * Reads only.
 */
#pragma once

#include "attach/memory/memory.h"
#include "attach/memory/proc_map.h"
#include "format/abi_control.h"
#include "format/abi_thunk.h"

/* Our code in the target. */
struct stackscan_ranges {
	raddr_t text_lo, text_hi;   /* the image's executable part */
	raddr_t thunk_lo, thunk_hi; /* the thunk page */
	raddr_t slack_lo, slack_hi; /* the bootstrap stub's place */
	raddr_t slack_left;	    /* choose_slack's; 0: none */
	raddr_t near[ABI_NEAR_MAX]; /* the near areas; 0: no more */
};

static inline bool stackscan_ours(const struct stackscan_ranges *r, uint64_t word)
{
	for (size_t i = 0; i < ABI_NEAR_MAX && r->near[i]; i++)
		if (word - r->near[i] < ABI_NEAR_BYTES)
			return true;
	return (word - r->text_lo < r->text_hi - r->text_lo) |
	       (word - r->thunk_lo < r->thunk_hi - r->thunk_lo) |
	       (word - r->slack_lo < r->slack_hi - r->slack_lo);
}

/* Does a word on a stack that leads into our code, and is no saved PC, mean a call that will return
 * there? */
static inline bool stackscan_is_return(const struct stackscan_ranges *r, uint64_t word)
{
	return stackscan_ours(r, word) && word != r->slack_left;
}

/* Is `word` the entry of a thunk: what a function pointer taken from a tapped slot holds? */
static inline bool stackscan_is_entry(const struct stackscan_ranges *r, uint64_t word)
{
	return word - r->thunk_lo < r->thunk_hi - r->thunk_lo &&
	       (word - r->thunk_lo) % ABI_THUNK_BYTES == ABI_THUNK_ENTRY;
}

#define STACKSCAN_ENTRIES_MAX 64u

struct stackscan_found {
	size_t plain;	    /* words into our code: return addresses, or stale */
	size_t unread;	    /* stacks, or parts of one, that were not looked at */
	size_t signal;	    /* PCs into our code in signal frames */
	size_t entry_count; /* thunk entries: function pointers */
	raddr_t entry[STACKSCAN_ENTRIES_MAX];
	bool cut; /* there is more than `bytes_max`, which was not read */
};

#define STACKSCAN_ALL UINT64_MAX

/*
 * Scans from `sp` - 128 (the red zone) to the end of its mapping, at most 64 MiB, and the stacks
 * that signal frames found there will return to. One that is younger than `maps` (or has grown
 * since then), that cannot be read to its end, or that is one too many is unread; where there is no
 * memory at all, there is no stack, and that counts as one plain hit. What lies beyond the 64 MiB
 * is not looked at, and not told. Stacks that are more than `bytes_max` together are not looked at
 * to their end.
 */
HT_MUST_CHECK
struct ht_err *stackscan_run(const struct proc *proc, const struct proc_maps *maps,
	const struct stackscan_ranges *ranges, raddr_t sp, uint64_t bytes_max,
	struct stackscan_found *ret);

/* Is there a word in [lo, hi) that means a return into our code? Not in pages that cannot be read:
 * they are gone. */
HT_MUST_CHECK
struct ht_err *stackscan_holds(const struct proc *proc, const struct stackscan_ranges *ranges,
	raddr_t lo, raddr_t hi, bool *ret);
