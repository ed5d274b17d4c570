/* SPDX-License-Identifier: Apache-2.0
 *
 * Hook addresses that leave their slots: code that loads a slot's word into a register instead of
 * calling through it, tables of function pointers, `pthread_key_create(&key, free)`. Reads only.
 */
#pragma once

#include "attach/got/slots.h"
#include "attach/inject/journal.h"
#include "attach/memory/proc_map.h"
#include "attach/proof/stackscan.h"

/*
 * Can an address have escaped from the tapped slots? True when a slot of the journal is in no
 * module (it, or its file, could not be read again), when code of a module refers to one of its
 * tapped slots other than by `call *slot(%rip)` or `jmp *slot(%rip)`, when no code does so at all
 * or some of it cannot be read, when code loads a number that may be the distance of one from the
 * GOT (the large code model), or when a slot is a pointer in program data. The C library's own
 * references are known not to outlive the call and do not count.
 */
HT_MUST_CHECK
struct ht_err *escape_is_possible(const struct proc *proc, const struct modules *modules,
	const struct slots *slots, const struct journal *journal, bool *ret);

#define ESCAPE_PLACES_MAX 32u

struct escape_found {
	size_t count;
	raddr_t addr;			  /* where the first of them stands */
	raddr_t place[ESCAPE_PLACES_MAX]; /* the first of them, as many as there is room for */
	uint64_t thunks;		  /* bit N: one of them leads to thunk N of the page */
	uint64_t unread_bytes; /* that are there and were not searched: swapped out, and more
				than may be brought back for a search, or not to be read */
};

/* What the kernel's page map says of a page: /proc/PID/pagemap (Documentation/admin-guide/mm). */
enum escape_page {
	ESCAPE_PAGE_NOT, /* the program cannot have written it, or it does not exist */
	ESCAPE_PAGE_SEARCHED,
	ESCAPE_PAGE_SWAPPED, /* to be searched, and a look would bring it back into memory */
};

enum escape_page escape_page_of(const struct proc_map *map, uint64_t entry);

struct escape_search {
	const struct proc *proc;
	const struct stackscan_ranges *ranges;
	raddr_t own_lo, own_hi; /* the image: what stands there does not count */
	/* True: the search ends with HT_ERR_REFUSED. Called for each chunk of memory; may be NULL.
	 */
	bool (*is_cancelled)(void *context);
	void *context;
};

/* Searches all memory that the program can have written, whatever its protection is now, but the
 * image and the thunks, for thunk entries; executable memory also for jumps to them. */
HT_MUST_CHECK
struct ht_err *escape_scan_memory(const struct escape_search *search, struct escape_found *ret);

/* How many of the `count` places that an earlier search has found still lead to a thunk? What
 * cannot be read any more does not. */
HT_MUST_CHECK
struct ht_err *escape_still(const struct proc *proc, const struct stackscan_ranges *ranges,
	const raddr_t *place, size_t count, size_t *ret);
