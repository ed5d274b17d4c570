/* SPDX-License-Identifier: Apache-2.0
 *
 * The cube: two sparse tables that are filled while a trace is read once, and that answer every
 * window of whole buckets afterwards (window.h).
 *
 * A *bucket* is a step of the timeline; when all steps are used, neighbouring steps are joined in
 * pairs, and so are buckets. A *site* is a stack, the thread that allocated, the allocation
 * function and the power of two of the size. A *cell* holds the counts of allocations and frees of
 * one site in one bucket. A *survivor* counts blocks of one site that were allocated in one bucket
 * and freed in a later one.
 */
#pragma once

#include "analyzer/cube/timeline.h"
#include "format/map.h"
#include "analyzer/model/nodes.h"
#include "analyzer/model/replay.h"
#include "analyzer/model/sample.h"
#include "format/cull/culled.h"

#define CUBE_SIZE_CLASSES 65u /* 0: size 0; n: sizes of n significant bits */

/* With more cells or survivors than this (cube.cells_max), buckets are joined down to
 * CUBE_BUCKETS_MIN. Then stacks are folded: the sites of the stacks with the fewest allocated bytes
 * per cell are merged into one site, CUBE_OTHER. */
#define CUBE_CELLS_MAX	 (1u << 20)
#define CUBE_BUCKETS_MIN 64u
#define CUBE_OTHER	 (UINT32_MAX - 1) /* as a node: all stacks that were folded */

struct cube_counts {
	uint64_t samples, allocations, allocated_bytes;
	/* of blocks of this site, in whichever bucket they were allocated */
	uint64_t frees, freed_bytes;
	uint64_t temporary, lifetime_us;
};

struct cube_cell {
	uint32_t site, bucket;
	struct cube_counts counts;
};

#define CUBE_SETTLED UINT16_MAX /* as `death`: freed in the settle time after the window */

struct cube_survivor {
	uint32_t site;
	uint16_t birth, death; /* buckets, birth < death */
	uint64_t blocks, bytes, temporary, lifetime_us;
};

#define CUBE_NONE	 UINT32_MAX
#define CUBE_RECENT_BITS 10u
#define CUBE_RECENT	 (1u << CUBE_RECENT_BITS)

struct cube_site {
	uint32_t node;	     /* leaf node of the stack, 0: none; CUBE_OTHER */
	uint32_t key;	     /* thread, hook and size class: cube_site_thread and so on */
	uint32_t next;	     /* index + 1 of another site of the node; 0: none */
	uint32_t cell;	     /* its newest cell; CUBE_NONE: none */
	uint32_t bucket;     /* bucket of `open` */
	uint32_t peak_epoch; /* value of cube.peak_epoch that peak_bytes belongs to */
	uint64_t live_bytes;
	uint64_t peak_bytes;	 /* the site's share of the peak of the whole trace; valid after
				    cube_finish */
	uint64_t longest_ns;	 /* longest life of a block that was freed */
	struct cube_counts open; /* counts of its next cell */
	struct sample_variance variance; /* of its allocations; 0 if the capture is not a sample */
};

static inline uint32_t cube_site_thread(const struct cube_site *site)
{
	return site->key >> 11;
}

static inline unsigned cube_site_hook(const struct cube_site *site)
{
	return site->key >> 7 & (REPLAY_HOOKS - 1);
}

static inline unsigned cube_site_size_class(const struct cube_site *site)
{
	return site->key & 127;
}

/* Frees by the calling thread and function, over the whole trace. */
struct cube_calls {
	uint64_t frees, freed_bytes; /* of blocks of the trace */
	uint64_t before_frees;	     /* of older blocks */
};

/* Empty and valid after zero-initialisation and cube_init. */
struct cube {
	uint64_t sample_bytes; /* set before the first fact; 0: not a sample */
	size_t cells_max;      /* CUBE_CELLS_MAX */
	/* Set before the first fact: blocks are counted only by cube_lived, when their lifetimes
	 * are known. */
	bool is_unordered;
	bool is_culled; /* cube_cull was called */
	bool is_part; /* with is_culled: the query leaves out some blocks, so the peak is unknown */
	bool has_peak; /* with is_culled: a record has stated the peak */
	struct timeline timeline;
	struct cube_counts total;
	uint64_t before_frees, before_freed_bytes, before_heap_bytes;
	/* Frees of older blocks by size class and bucket; class 0: usable size unknown. */
	uint32_t before[CUBE_SIZE_CLASSES][TIMELINE_STEPS];
	uint64_t peak_bytes, peak_blocks, peak_time_ns;
	bool is_peak_estimate; /* after cube_finish: the peak is the highest total at a bucket's end
				*/
	uint32_t peak_epoch;
	int64_t highest_bytes; /* highest value of live bytes less before_heap_bytes */
	uint64_t highest_time_ns;

	/* The bucket of the newest event: its end, the totals at its start, its peak. */
	uint32_t bucket; /* counted in step_ns, as all buckets here; the timeline may already have
			    joined its steps */
	uint64_t bucket_end_ns, bucket_max_bytes;
	struct cube_counts bucket_start;

	struct cube_site *site;
	size_t site_count, site_capacity;
	struct cube_index {
		uint32_t *site; /* index + 1 of a site of the node; 0: none yet */
		size_t capacity;
	} of_node, of_plain; /* by node; ids from NODES_MAX on are in of_plain */
	/* Cache of sites: index + 1, by a hash of node and key; 0: empty. */
	uint32_t recent[CUBE_RECENT];
	uint32_t other;		/* index + 1 of the site CUBE_OTHER */
	uint64_t folded_stacks; /* number of stacks merged into CUBE_OTHER */
	uint64_t folded_bytes;	/* bytes that these stacks allocated; after cube_finish */

	struct cube_cell *cell; /* after cube_finish, sorted by site, then by bucket */
	size_t cell_count, cell_capacity;
	struct map by_bucket; /* (site, bucket) -> cell, if is_unordered or is_culled */
	struct cube_survivor
		*survivor; /* in the order of deaths; after cube_finish by site first */
	size_t survivor_count, survivor_capacity;
	bool has_settled; /* some survivors died after the window */
	struct map dying; /* (site, birth) -> survivor, only for deaths in `dying_bucket` */
	uint32_t dying_bucket;
	uint64_t step_ns;    /* length of a bucket in all tables: the timeline's step when they last
				followed it */
	unsigned step_shift; /* step_ns is the timeline's initial step << step_shift */

	/* Frees by the thread and function of the newest free, not yet added to the tables below.
	 */
	struct cube_calls caller;
	uint32_t caller_thread;
	uint8_t caller_hook;
	struct cube_calls *thread; /* by thread index */
	size_t thread_count, thread_capacity;
	struct cube_calls function[REPLAY_HOOKS];
	uint64_t lifetime_blocks[CUBE_SIZE_CLASSES]; /* by the power of two of the life in ns */
	uint64_t lifetime_bytes[CUBE_SIZE_CLASSES];

	uint32_t *first_cell, *first_survivor; /* after cube_finish: by site: index of its first
						  cell and survivor; one more entry at the end */
};

void cube_init(struct cube *cube);
void cube_deinit(struct cube *cube);
/* Count the facts of replay.h. The note of a block is index + 1 of its site; 0: the site must be
 * searched. */
HT_MUST_CHECK
struct ht_err *cube_allocated(
	struct cube *cube, const struct replay_call *call, struct live_block *block);
HT_MUST_CHECK
struct ht_err *cube_freed(struct cube *cube, const struct replay_call *call,
	const struct live_block *block, bool temporary);
/* `heap_bytes` is the size of the block with its header (heap_before_freed); 0: unknown. */
HT_MUST_CHECK
struct ht_err *cube_before_freed(struct cube *cube, const struct replay_call *call,
	uint64_t usable_bytes, uint64_t heap_bytes);
/* Counts the free of a block of the window in the settle time, at `time_ns`. Call it only after all
 * facts of the window. */
HT_MUST_CHECK
struct ht_err *cube_settled(struct cube *cube, const struct live_block *block, uint64_t time_ns);
/* Advances the time without counting a fact, so that all events, not only the counted ones,
 * determine the buckets. */
HT_MUST_CHECK
struct ht_err *cube_pass(struct cube *cube, uint64_t time_ns);
/* With is_unordered: counts the whole life of a block that died by `death`; NULL: it stays live.
 * Deaths must not decrease; births may come in any order. */
HT_MUST_CHECK
struct ht_err *cube_lived(struct cube *cube, const struct live_block *block,
	const struct replay_call *death, bool temporary);
/* Call after the last fact: sorts cells and survivors by site, and makes peak_bytes of the sites
 * valid. */
HT_MUST_CHECK
struct ht_err *cube_finish(struct cube *cube);

/* A sum of culled blocks of one site, which have no facts (format/cull/culled.h). */
struct cube_culled {
	uint32_t stack, thread;
	uint8_t hook;
	unsigned size_class;
	uint64_t birth_ns, death_ns; /* a time within the interval of birth, and of death */
	uint64_t blocks, bytes, temporary, lifetime_us, longest_ns;
};

/* Call before the first fact of a trace with CULLED records: makes steps at least as long as their
 * intervals. From then on the peak is that of these records. */
HT_MUST_CHECK
struct ht_err *cube_cull(struct cube *cube);
HT_MUST_CHECK
struct ht_err *cube_culled_blocks(struct cube *cube, const struct cube_culled *from);
/* Changes a site's share of the peak. */
HT_MUST_CHECK
struct ht_err *cube_culled_peak(
	struct cube *cube, const struct cube_culled *site, int64_t change_bytes);
/* Counts frees of culled blocks for the calling thread and function. */
HT_MUST_CHECK
struct ht_err *cube_count_caller(
	struct cube *cube, uint32_t thread, uint8_t hook, const struct cube_calls *calls);
void cube_culled_lives(struct cube *cube, uint64_t class, uint64_t blocks, uint64_t bytes);
HT_MUST_CHECK
struct ht_err *cube_culled_head(struct cube *cube, uint64_t time_ns, const struct rec_culled *head);

static inline unsigned cube_size_class(uint64_t size)
{
	return size ? 64 - (unsigned)__builtin_clzll(size) : 0;
}
/* Number of live blocks of this size class and larger classes; blocks of folded stacks count as
 * class 0. */
uint64_t cube_live_blocks_from(const struct cube *cube, unsigned size_class);
/* The name of a hook; "unknown" for a hook of a newer version. */
const char *cube_function_name(unsigned hook);
/* Live blocks and bytes at the current time. */
static inline uint64_t cube_live_bytes(const struct cube *cube)
{
	return cube->total.allocated_bytes - cube->total.freed_bytes;
}
static inline uint64_t cube_live_blocks(const struct cube *cube)
{
	return cube->total.allocations - cube->total.frees;
}

/* The bucket of a time. */
static inline uint32_t cube_bucket_at(const struct cube *cube, uint64_t time_ns)
{
	return (uint32_t)(time_ns / TIMELINE_FIRST_STEP_NS >> cube->step_shift);
}

/* --- internal to cube.c, cells.c and culled.c --- */

void cube_counts_add(struct cube_counts *sum, const struct cube_counts *more);
/* Adds counts to the cell of a site in a bucket. */
HT_MUST_CHECK
struct ht_err *cube_add_cell(
	struct cube *cube, uint32_t site, uint32_t bucket, const struct cube_counts *counts);
/* Adds counts to the totals, to a step of the timeline and to the site's cell in that bucket. */
HT_MUST_CHECK
struct ht_err *cube_add_counts(
	struct cube *cube, uint32_t site, uint32_t bucket, const struct cube_counts *counts);
/* Finds the index of a site, added if it is new. */
HT_MUST_CHECK
struct ht_err *cube_find_site(struct cube *cube, uint32_t stack, uint32_t thread, uint8_t hook,
	unsigned size_class, uint32_t *ret);
/* Adds blocks to the survivor entry with the same site, birth and death. */
HT_MUST_CHECK
struct ht_err *cube_add_survivors(struct cube *cube, const struct cube_survivor *more);
/* Call after the last fact of a culled trace: computes the timeline's live bytes from its steps. */
void cube_finish_culled(struct cube *cube);
/* Turns the open counts of a site into a cell. */
HT_MUST_CHECK
struct ht_err *cube_close_cell(struct cube *cube, uint32_t site);
/* Joins buckets as the timeline has joined its steps. */
HT_MUST_CHECK
struct ht_err *cube_follow_timeline(struct cube *cube);
/* Counts a block of `site` that was allocated in the bucket `birth` and dies in a later one. */
HT_MUST_CHECK
struct ht_err *cube_add_survivor(struct cube *cube, uint32_t site, uint32_t birth, uint32_t death,
	struct sample_share share, bool temporary, uint64_t lifetime_us);
/* Reduces cells and survivors if there are more than cells_max. */
HT_MUST_CHECK
struct ht_err *cube_shrink(struct cube *cube);
HT_MUST_CHECK
struct ht_err *cube_sort(struct cube *cube);
/* With is_unordered, or if no record of a culled trace states the peak: computes the timeline's
 * live bytes and the peak from steps and cells. */
void cube_estimate_peak(struct cube *cube);
