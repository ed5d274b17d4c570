/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans a thread's stacks for words that lead into our code. Conservative: finds every return
 * address and every PC that a signal frame will restore; some of the words are stale. Reads only.
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
	raddr_t slack_lo, slack_hi; /* the bootstrap stub's place in the target's code */
	raddr_t slack_left;	    /* return address of the start code that the stub replaces
				       (choose_slack_left); 0: none */
	raddr_t near[ABI_NEAR_MAX]; /* the near areas of the image; 0: no more */
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

/* Is `word`, on a stack and not a saved PC, a return address into our code? The main thread's stack
 * may hold `slack_left`: the program's start code was there before the stub, and its call never
 * returns. */
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
	size_t plain;  /* words into our code, outside signal frames: return addresses, or stale */
	size_t unread; /* stacks, or parts of stacks, that were not read */
	size_t signal; /* PCs into our code in signal frames */
	size_t entry_count; /* words that are thunk entries, that is function pointers; `entry`:
			       addresses of the first ones */
	raddr_t entry[STACKSCAN_ENTRIES_MAX];
	bool cut; /* the stacks are longer than `bytes_max`; the rest was not read */
};

#define STACKSCAN_ALL UINT64_MAX

/*
 * Scans from `sp` - 128 (the red zone) to the end of the mapping, at most 64 MiB, and the stacks
 * that signal frames in there return to. A stack counts as `unread` if it is newer than `maps` or
 * has grown since, cannot be read to its end, or is one more than the scan can follow. A stack
 * pointer without memory counts as one `plain` hit. Beyond 64 MiB nothing is read, and the result
 * does not show it. Beyond `bytes_max` in total nothing is read, and `cut` is set.
 */
HT_MUST_CHECK
struct ht_err *stackscan_run(const struct proc *proc, const struct proc_maps *maps,
	const struct stackscan_ranges *ranges, raddr_t sp, uint64_t bytes_max,
	struct stackscan_found *ret);

/* Is there a word in [lo, hi) that means a return into our code? Pages that cannot be read are
 * skipped: they were unmapped. */
HT_MUST_CHECK
struct ht_err *stackscan_holds(const struct proc *proc, const struct stackscan_ranges *ranges,
	raddr_t lo, raddr_t hi, bool *ret);
