/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc's map of its extents (5.1 to 5.3: rtree, with extent or edata): a tree whose leaves lead
 * from the first page of each extent to the extent's description. The map proves itself: the
 * description contains that page and the size of the blocks, and for a slab which blocks are free.
 */
#pragma once

#include "attach/heap/view/view.h"

/* Number of size classes, and how many of them are in slabs. */
#define EMAP_CLASSES	   232u
#define EMAP_CLASSES_SMALL 36u

#define EMAP_LEVELS_MAX 3u
#define EMAP_SHAPES	4u

/* Variants: by the address bits of the processor on which jemalloc was configured (48 or 57), and
 * by the description of extents (since 5.3, or before). */
struct emap_shape {
	unsigned levels;
	unsigned bits[EMAP_LEVELS_MAX]; /* address bits that select an entry, by level */
	unsigned leaf_bytes;		/* of an entry in the last level */
	unsigned align;			/* of a description; a leaf keeps flags in the bits below */
	/* Positions in the first word of a description: state and its number of bits, size class,
	 * free blocks. */
	unsigned state_shift, state_bits, class_shift, free_shift;
	bool is_old; /* before 5.3 */
};

extern const struct emap_shape emap_shapes[EMAP_SHAPES];

/* Number of address bits below those that select an entry in that level. */
unsigned emap_page_bits(const struct emap_shape *shape, unsigned level);
uint64_t emap_node_bytes(const struct emap_shape *shape, unsigned level);

/* The state of an extent: in use, or kept for later (with its pages; with pages that the kernel may
 * take; without pages). */
enum emap_state { EMAP_ACTIVE, EMAP_DIRTY, EMAP_MUZZY, EMAP_RETAINED, EMAP_STATES };

struct emap {
	raddr_t root;
	const struct emap_shape *shape;
};

struct emap_extent {
	raddr_t edata; /* its description */
	uint64_t key;  /* its first page, with the flags of the leaf */
	union {
		raddr_t word; /* entry in the leaf, until the extent has been examined */
		uint64_t held_bytes;
	};
};

/* One walk. */
struct emap_walk {
	struct emap_extent *extent; /* ascending by edata, each once */
	size_t count, capacity;
	uint64_t held_bytes;		   /* blocks handed out, including those in caches */
	uint64_t system_bytes;		   /* of extents in use, dirty or muzzy */
	uint64_t state_bytes[EMAP_STATES]; /* of all extents, by enum emap_state */
	uint64_t odd_bytes;		   /* of extents that changed at every look */
	uint64_t arena_seen[64];
	uint32_t arenas;
	bool longer;	  /* extents of large blocks have a page beyond the block */
	uint64_t shorter; /* number of large blocks that are shorter than their size class */
	bool valid;	  /* the walk is complete and consistent */
	bool full;	  /* there are more extents than room */
};

/* Size of the blocks in a size class. */
uint64_t emap_class_bytes(size_t class);

/* Can a node of that size be at `addr`? */
bool emap_is_node(const struct view *view, raddr_t addr, uint64_t bytes);
/* Is `node` a node of the second level, and which entry of the root leads to it? `walk` as for
 * emap_walk; its contents are undefined afterwards. */
HT_MUST_CHECK
struct ht_err *emap_try(struct view *view, const struct emap_shape *shape, raddr_t node,
	struct emap_walk *walk, uint64_t *ret_index, bool *ret_is);
/* `ret`: zero-initialised, or an earlier walk, which it replaces. Free with emap_walk_deinit. */
HT_MUST_CHECK
struct ht_err *emap_walk(struct view *view, const struct emap *emap, struct emap_walk *ret);
void emap_walk_deinit(struct emap_walk *walk);
/* Bytes in which two walks differ; 0: nothing has moved. */
uint64_t emap_moved_bytes(const struct emap_walk *before, const struct emap_walk *now);
