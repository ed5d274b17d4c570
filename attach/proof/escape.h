/* SPDX-License-Identifier: Apache-2.0
 *
 * Hook addresses outside GOT slots: code that loads a slot's word into a register instead of
 * calling through the slot, tables of function pointers, `pthread_key_create(&key, free)`. Reads
 * only.
 */
#pragma once

#include "attach/got/slots.h"
#include "attach/inject/journal.h"
#include "attach/memory/proc_map.h"
#include "attach/proof/stackscan.h"

/*
 * Can a hook's address have been copied from a GOT slot? True if one of these holds: (1) a slot of
 * the journal is in no module, as its module or file could not be read again; (2) a module's code
 * refers to one of its hooked slots other than by `call *slot(%rip)` or `jmp *slot(%rip)`; (3) no
 * code calls or jumps through a hooked slot, or some code cannot be read; (4) code loads a number
 * that may be a hooked slot's distance from the GOT (the large code model); (5) a hooked slot is a
 * pointer in program data. The C library's own code does not count: it keeps no such address after
 * its call returns.
 */
HT_MUST_CHECK
struct ht_err *escape_is_possible(const struct proc *proc, const struct modules *modules,
	const struct slots *slots, const struct journal *journal, bool *ret);

#define ESCAPE_PLACES_MAX 32u

struct escape_found {
	size_t count;
	raddr_t addr;			  /* address of the first reference */
	raddr_t place[ESCAPE_PLACES_MAX]; /* addresses of the first references */
	uint64_t thunks;		  /* bit N: a reference to thunk N was found */
	uint64_t unread_bytes; /* mapped bytes that were not searched: they cannot be read, or are
				  swapped out beyond the limit of one search */
};

/* The state of a page by the kernel's page map: /proc/PID/pagemap (Documentation/admin-guide/mm).
 */
enum escape_page {
	ESCAPE_PAGE_NOT, /* the program cannot have written it, or it does not exist */
	ESCAPE_PAGE_SEARCHED,
	ESCAPE_PAGE_SWAPPED, /* to be searched, which swaps the page in */
};

enum escape_page escape_page_of(const struct proc_map *map, uint64_t entry);

struct escape_search {
	const struct proc *proc;
	const struct stackscan_ranges *ranges;
	raddr_t own_lo, own_hi; /* the image: references inside it do not count */
	/* Called for each chunk of memory, of 1 MiB at most; true ends the search with
	 * HT_ERR_REFUSED. May be NULL. */
	bool (*is_cancelled)(void *context);
	void *context;
};

/* Searches all memory that the program can have written, whatever its protection is now, for thunk
 * entries, and executable memory also for jumps to them. Leaves out the image with its near areas,
 * the thunk page, devices, and mappings of the kernel. After an error `ret` is not set. */
HT_MUST_CHECK
struct ht_err *escape_scan_memory(const struct escape_search *search, struct escape_found *ret);

/* Counts those of the `count` places, found by an earlier search, that still lead to a thunk. A
 * place that cannot be read any more does not count. */
HT_MUST_CHECK
struct ht_err *escape_still(const struct proc *proc, const struct stackscan_ranges *ranges,
	const raddr_t *place, size_t count, size_t *ret);
