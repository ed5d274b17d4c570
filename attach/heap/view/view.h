/* SPDX-License-Identifier: Apache-2.0
 *
 * The target's memory for readers of its heaps: only private, writable memory, within a budget of
 * reads, and never a page that the kernel would have to fetch from a disk.
 */
#pragma once

#include "attach/memory/memory.h"
#include "attach/memory/proc_map.h"

/* The budget of all looks together, and the cost of a look with a system call (about a microsecond)
 * and without one. */
#define VIEW_BUDGET    1000000u
#define VIEW_READ_COST 20u
#define VIEW_LOOK_COST 1u
#define VIEW_PAGES     64u
#define VIEW_ENTRIES   512u
#define VIEW_PAUSE_NS  5000000u /* longer than the usual tick of 4 ms */

struct view_page {
	raddr_t addr;
	uint64_t round; /* view.round when it was read */
	size_t bytes;
	uint8_t data[HT_PAGE_BYTES];
};

/* State of VIEW_ENTRIES pages, from the last read. */
struct view_touched {
	int fd;	      /* -1: the kernel does not tell */
	raddr_t addr; /* of the first page */
	uint64_t round;
	size_t count;
	uint64_t entry[VIEW_ENTRIES];
};

struct view {
	const struct proc *proc;
	struct proc_maps maps;
	struct view_page *page; /* VIEW_PAGES pages, by address */
	uint64_t round;
	uint64_t left; /* of the budget */
	uint64_t pause_ns;
	int pagemap_fd;	      /* -1: nothing is swapped out */
	raddr_t present_page; /* the page that was last seen in memory; 0: none */
	struct view_touched touched;
	bool spent;	    /* the budget refused a look */
	bool swapped;	    /* a look was refused because its page is swapped out */
	struct ht_err *err; /* the first error that concerns the whole process */
};

/* Reads the mappings. Call view_deinit also after an error. */
HT_MUST_CHECK
struct ht_err *view_init(struct view *view, const struct proc *proc);
/* For the time between two tries, if what was read is inconsistent: waits `pause_ns` and reads the
 * mappings again; an error goes to view->err. A thread that lost its core in the middle of a change
 * leaves lists inconsistent until its next turn, some milliseconds later. */
void view_pause(struct view *view);
/* Returns view->err, which then belongs to the caller. */
HT_MUST_CHECK
struct ht_err *view_deinit(struct view *view);

/* Is `addr` in anonymous, private, writable memory? */
bool view_holds(const struct view *view, raddr_t addr);
/* The same, or in memory that an allocator has reserved and may use since the mappings were read:
 * private, without a file and without access, as the rest of a heap of glibc's threads. */
bool view_may_hold(const struct view *view, raddr_t addr);
/* Takes `cost` off the budget. False: the budget or the process is at its end. */
bool view_spend(struct view *view, uint64_t cost);
/* Limits the budget to `most` until view_unlimit gets the value returned here. view_unlimit also
 * clears `spent`. */
uint64_t view_limit(struct view *view, uint64_t most);
void view_unlimit(struct view *view, uint64_t kept);
/* Makes later reads fetch memory anew. */
void view_forget(struct view *view);
/* Reads all of `bytes` from memory for which view_may_hold is true, each page as it was at some
 * moment since view_forget. False: unreadable, or over the budget. */
bool view_read(struct view *view, raddr_t addr, void *ret, size_t bytes);
/* Reads any memory, such as variables of a module. Returns the number of bytes read; 0 also if the
 * budget is spent or a page is swapped out. */
size_t view_read_data(struct view *view, raddr_t addr, void *ret, size_t bytes);
/* Moves `*at` to the next page below `hi` that is in memory or swapped out, unless it is in such a
 * page already. `*ret_end` is the end of that page or of several that follow it, at most `hi`.
 * False: none, or the budget is spent. If the kernel does not tell, all pages count. A read of an
 * untouched page would return zeros or file contents, and allocate memory in the target. */
bool view_touched(struct view *view, raddr_t *at, raddr_t hi, raddr_t *ret_end);
/* Counts the bytes between `lo` and `hi` in pages that are in memory. False: unknown for some
 * pages. */
bool view_resident(struct view *view, raddr_t lo, raddr_t hi, uint64_t *ret_bytes);
