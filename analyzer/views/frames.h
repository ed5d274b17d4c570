/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames of all stacks of a trace, each code address once, and groups of frames that a view
 * treats as the same.
 */
#pragma once

#include "analyzer/cube/analysis.h"

struct frame {
	const char *function; /* NULL: unknown */
	const char *file;     /* NULL: unknown */
	uint32_t line;	      /* 0: unknown */
	uint32_t module;      /* index, MODULES_NONE: the offset is an address */
	uint64_t offset;      /* address - bias */
	bool interpreted;     /* an interpreted function, which has no address */
	bool inlined;
	bool line_is_first; /* `line` is the line where the function begins */
};

/* The frames of one place: `first` is the innermost. */
struct frames_place {
	uint32_t first, count;
};

struct frames {
	struct frame *frame;
	size_t count, capacity;
	struct frames_place *place;
	size_t place_count, place_capacity;
	struct map by_place;
	uint32_t *place_of; /* by nodes_index; UINT32_MAX: the node is not known */
	uint32_t node_count;
};

/* Valid as long as the analysis exists and no symbols are added to it. */
HT_MUST_CHECK
struct ht_err *frames_init(struct frames *frames, struct analysis *analysis);
void frames_deinit(struct frames *frames);
/* The frames of the node with this nodes_index; count is 0 for an unknown node, else at least 1. */
struct frames_place frames_of(const struct frames *frames, uint32_t index);

/* The properties that the frames of one group share. */
enum grouping {
	GROUPING_LINE, /* function, file and line */
	GROUPING_FUNCTION,
	GROUPING_ADDRESS,
	GROUPING_MODULE,
	GROUPING_NAMESPACE, /* C++ namespace, Rust crate or npm package; without one, the module */
	GROUPING_COUNT
};

struct group {
	uint32_t frame;	  /* the group's first frame: its function, file and line are those of the
			     group */
	const char *name; /* of a module or namespace; NULL: the frame has the name */
	bool is_wrapper;  /* only passes allocations on */
	bool is_plumbing; /* only passes a call on, or starts a thread or the program */
};

struct groups {
	enum grouping grouping;
	struct group *group;
	size_t count, capacity;
	uint32_t *of_frame; /* by frame */
};

/* Whether one group holds the frames of many functions: a tree then has one node for calls within
 * it. */
static inline bool groups_are_coarse(const struct groups *groups)
{
	return groups->grouping == GROUPING_MODULE || groups->grouping == GROUPING_NAMESPACE;
}

HT_MUST_CHECK
struct ht_err *groups_init(struct groups *groups, enum grouping grouping,
	const struct frames *frames, struct analysis *analysis);
void groups_deinit(struct groups *groups);
