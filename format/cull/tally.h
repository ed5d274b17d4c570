/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter's counters: in each interval, sums by site of the blocks that lived shorter than the
 * time of --cull; for all blocks, the live bytes, their peak and each site's share of the peak.
 * Memory is bounded by the sites with live blocks or a share of the peak, and by the threads seen.
 */
#pragma once

#include "format/cull/culled.h"
#include "format/map.h"

#define TALLY_CLASSES 65u /* of sizes and lives: number of significant bits */

/* A period of a thread with one name: from `since_tsc` until the next period of its chain. */
struct tally_thread {
	uint32_t tid;
	uint32_t first; /* number of the thread's first period */
	uint32_t next;	/* its next period; 0: none */
	uint32_t row;	/* sums of frees in this interval, by function; 0: none */
	uint64_t since_tsc;
	uint64_t newest; /* address of its last allocation; only in `first` */
};

/* Sums of one interval: by age in a site, by function in a thread. */
struct tally_row {
	uint32_t next; /* 0: none */
	uint32_t key;
	uint64_t blocks, bytes, temporary, lifetime_us, longest_ns;
};

/* Blocks of one stack, thread, function and power of two of the size. */
struct tally_site {
	uint32_t node, key, thread;
	uint32_t next; /* next site of the index's chain, or of the list of free sites; 0: none */
	uint32_t row;  /* sums of the interval by age; 0: none */
	uint32_t changed_at; /* index in tally.changed + 1; 0: not in that list */
	bool is_touched;     /* in tally.touched */
	uint64_t live_blocks, live_bytes;
	uint64_t epoch;		 /* peak that settled_bytes belongs to */
	uint64_t settled_bytes;	 /* live bytes at that peak */
	uint64_t reported_bytes; /* share of the peak that records have stated */
};

struct tally_list {
	uint32_t *at;
	size_t count, capacity;
};

/* Zero-initialised is empty and valid. Numbers of sites, threads and rows begin at 1. */
struct tally {
	struct tally_thread *thread;
	size_t thread_count, thread_capacity;
	struct map by_tid;
	uint64_t names; /* number of name changes so far: a cached period is outdated if it has
			   changed */

	struct tally_site *site;
	size_t site_count, site_capacity; /* used or free */
	size_t sites;			  /* in use */
	uint32_t free_site;
	uint32_t *index; /* by hash: first site of a chain */
	size_t index_size;

	struct tally_row *row;
	size_t row_count, row_capacity;
	struct tally_list touched; /* sites of the interval */
	struct tally_list callers; /* threads with rows */
	struct tally_list changed; /* sites whose live bytes changed since the peak was stated */

	uint64_t interval;
	uint64_t live_bytes, live_blocks;
	uint64_t max_bytes; /* most live bytes in the interval */
	uint64_t epoch;	    /* number of peaks so far */
	uint64_t peak_bytes, peak_blocks, peak_ns;
	bool has_peak, has_highest; /* since the last record there was a new peak, or a new highest
				       value */
	/* before_bytes: of freed blocks older than the window, with their headers; header_bytes: of
	 * one block, set by the caller. */
	uint64_t before_bytes, header_bytes;
	int64_t highest_bytes; /* highest value of live_bytes less before_bytes, and its time */
	uint64_t highest_ns;
	uint64_t lives[TALLY_CLASSES], lives_bytes[TALLY_CLASSES];
};

void tally_deinit(struct tally *tally);

/* The period of a thread that `tsc` lies in; valid until `*ret_until_tsc`. */
HT_MUST_CHECK
struct ht_err *tally_find_thread(
	struct tally *tally, uint32_t tid, uint64_t tsc, uint32_t *ret, uint64_t *ret_until_tsc);
/* Takes a THREAD record. */
HT_MUST_CHECK
struct ht_err *tally_name(struct tally *tally, const struct rec_thread *rec);
/* `key` as in culled.h. The number stays valid while the site has live blocks. */
HT_MUST_CHECK
struct ht_err *tally_find_site(
	struct tally *tally, uint32_t node, uint32_t thread, uint32_t key, uint32_t *ret);

HT_MUST_CHECK
struct ht_err *tally_birth(struct tally *tally, uint32_t site, uint64_t size, uint64_t now_ns);

struct tally_death {
	uint32_t site;
	uint64_t size, birth_ns, now_ns;
	bool temporary, culled;
	uint32_t caller; /* number of the thread period that ends the block */
	uint8_t hook;	 /* the function that ends it: enum abi_hook */
};

HT_MUST_CHECK
struct ht_err *tally_end(struct tally *tally, const struct tally_death *death);
/* Counts the free of a block that was allocated before the window. `usable_bytes` 0: unknown; the
 * free is then not counted. */
void tally_before(struct tally *tally, uint64_t usable_bytes);

/* Ends the interval and begins interval `next`. `put` receives the records with the counts, or is
 * not called if all counts are 0; `head` holds end_tsc and the sums of events. */
typedef struct ht_err *tally_put(void *context, const struct rec *rec);
HT_MUST_CHECK
struct ht_err *tally_close(struct tally *tally, uint64_t next, const struct rec_culled *head,
	tally_put *put, void *context);
