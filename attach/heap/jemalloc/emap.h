/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc's map of all that it has (its 5.1 to 5.3: rtree, and extent or edata): a tree in whose
 * leaves each page where an extent begins names what is known of that extent. It proves itself:
 * what a leaf names says itself which page that is, and of which size its blocks are; and of a
 * slab, how many blocks are free, and which.
 */
#pragma once

#include "attach/heap/view/view.h"

/* Sizes that jemalloc hands out, and how many of them are of slabs. */
#define EMAP_CLASSES	   232u
#define EMAP_CLASSES_SMALL 36u

#define EMAP_LEVELS_MAX 3u
#define EMAP_SHAPES	4u

/* By the bits of addresses that the processor had on which jemalloc was configured: 48, or 57; and
 * by how extents are described: as of 5.3, or before. */
struct emap_shape {
	unsigned levels;
	unsigned bits[EMAP_LEVELS_MAX]; /* of an address, by the level that they choose at */
	unsigned leaf_bytes;		/* of an entry of the last level */
	unsigned align; /* of what is known of an extent; below it a leaf has flags */
	/* Where in its first word the state is, and how many bits it has; the number of the size;
	 * the free blocks. */
	unsigned state_shift, state_bits, class_shift, free_shift;
	bool is_old;
};

extern const struct emap_shape emap_shapes[EMAP_SHAPES];

/* The bits of an address below those that choose at a level. */
unsigned emap_page_bits(const struct emap_shape *shape, unsigned level);
uint64_t emap_node_bytes(const struct emap_shape *shape, unsigned level);

/* What an extent is: blocks lie in it, or it is kept for use (with its pages, with pages that the
 * kernel may take, without any). */
enum emap_state { EMAP_ACTIVE, EMAP_DIRTY, EMAP_MUZZY, EMAP_RETAINED, EMAP_STATES };

struct emap {
	raddr_t root;
	const struct emap_shape *shape;
};

struct emap_extent {
	raddr_t edata; /* what is known of it */
	uint64_t key;  /* its first page, and what the leaf says of it */
	union {
		raddr_t word; /* of the leaf, until it was looked at */
		uint64_t held_bytes;
	};
};

/* One walk. */
struct emap_walk {
	struct emap_extent *extent; /* ascending by edata, each once */
	size_t count, capacity;
	uint64_t held_bytes;   /* blocks that were handed out, those of caches among them */
	uint64_t system_bytes; /* extents that are in use, or kept for use */
	uint64_t state_bytes[EMAP_STATES]; /* of all extents, by enum emap_state */
	uint64_t odd_bytes; /* of extents that changed whenever they were looked at */
	uint64_t arena_seen[64];
	uint32_t arenas;
	bool longer;	  /* extents of large blocks have a page that is not the block's */
	uint64_t shorter; /* of large blocks: how many are less than their size's number says */
	bool valid;	  /* the whole was walked, and makes sense */
	bool full;	  /* it has more extents than there is room for */
};

/* Of the blocks of a size, by its number. */
uint64_t emap_class_bytes(size_t class);

/* Could a node of so many bytes be there? */
bool emap_is_node(const struct view *view, raddr_t addr, uint64_t bytes);
/* Is `node` one of the second level, and which word of the root leads to it? `walk` as for
 * emap_walk; what is in it then means nothing. */
HT_MUST_CHECK
struct ht_err *emap_try(struct view *view, const struct emap_shape *shape, raddr_t node,
	struct emap_walk *walk, uint64_t *ret_index, bool *ret_is);
/* `ret` is zero-initialised, or of a walk before: what it holds is given up. */
HT_MUST_CHECK
struct ht_err *emap_walk(struct view *view, const struct emap *emap, struct emap_walk *ret);
void emap_walk_deinit(struct emap_walk *walk);
/* By how much extents differ between two walks: 0 when nothing has moved. */
uint64_t emap_moved_bytes(const struct emap_walk *before, const struct emap_walk *now);
