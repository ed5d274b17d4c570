/* SPDX-License-Identifier: Apache-2.0
 *
 * The target's memory as the reader of its heap sees it: private memory that it may write to, so
 * many reads and no more, and no page that would have to be fetched from a disk first.
 */
#pragma once

#include "attach/memory/memory.h"
#include "attach/memory/proc_map.h"

/* What all looks together may cost: a system call, a microsecond as a rule, and one that needs
 * none.
 */
#define VIEW_BUDGET    1000000u
#define VIEW_READ_COST 20u
#define VIEW_LOOK_COST 1u
#define VIEW_PAGES     64u
#define VIEW_ENTRIES   512u
#define VIEW_PAUSE_NS  5000000u /* longer than a tick of 4 ms, as is usual */

struct view_page {
	raddr_t addr;
	uint64_t round; /* in which it was read */
	size_t bytes;
	uint8_t data[HT_PAGE_BYTES];
};

/* Which pages there are of VIEW_ENTRIES, as it was read last. */
struct view_touched {
	int fd;	      /* -1: the kernel does not tell */
	raddr_t addr; /* of the first */
	uint64_t round;
	size_t count;
	uint64_t entry[VIEW_ENTRIES];
};

struct view {
	const struct proc *proc;
	struct proc_maps maps;
	struct view_page *page; /* VIEW_PAGES, by address */
	uint64_t round;
	uint64_t left; /* of the budget */
	uint64_t pause_ns;
	int pagemap_fd; /* -1: nothing is swapped out */
	raddr_t present_page;
	struct view_touched touched;
	bool spent;	    /* a look was refused because there were too many */
	bool swapped;	    /* or because its page is swapped out */
	struct ht_err *err; /* the first that concerns the whole process */
};

/* The mappings are read once; `view` must not move. Deinit also after an error. */
HT_MUST_CHECK
struct ht_err *view_init(struct view *view, const struct proc *proc);
/*
 * Between two tries, where what was read does not add up: waits `pause_ns`, and reads the mappings
 * again; an error is view->err. A thread that lost its processor in the middle of a change leaves
 * lists torn until its next turn, some milliseconds later.
 */
void view_pause(struct view *view);
/* Returns view->err, which is the caller's from then on. */
HT_MUST_CHECK
struct ht_err *view_deinit(struct view *view);

/* Is `addr` in anonymous, private memory that the program can write to? */
bool view_holds(const struct view *view, raddr_t addr);
/* Takes a cost off the budget; false: there is no more of it, or of the process. */
bool view_spend(struct view *view, uint64_t cost);
/* From here on no more than `most` of the budget may be spent, until view_unlimit gets what this
 * returns. Then looks that were refused are not remembered. */
uint64_t view_limit(struct view *view, uint64_t most);
void view_unlimit(struct view *view, uint64_t kept);
/* From here on view_read reads anew. */
void view_forget(struct view *view);
/* All of `bytes` from such memory, or false: not there, not readable, or spent. As it was at some
 * moment since view_forget. */
bool view_read(struct view *view, raddr_t addr, void *ret, size_t bytes);
/* The same of any memory, as the variables of a module; as many bytes as there are. */
size_t view_read_data(struct view *view, raddr_t addr, void *ret, size_t bytes);
/*
 * Moves `*at` on to the first page below `hi` that is in memory or swapped out, unless it is in
 * one;
 * `*ret_end` gets the end of that page, or of some that follow it, `hi` at most. False: there is
 * none. What the program has not touched since it was mapped would read as zeros, or as its file,
 * and take memory for it.
 */
bool view_touched(struct view *view, raddr_t *at, raddr_t hi, raddr_t *ret_end);
/* How many of the bytes from `lo` to `hi` lie in pages that are in memory; false: not all of them
 * could be asked about. */
bool view_resident(struct view *view, raddr_t lo, raddr_t hi, uint64_t *ret_bytes);
