/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of code addresses: a list of frames for each (module, offset), innermost inlined
 * function first.
 */
#pragma once

#include "analyzer/model/modules.h"
#include "analyzer/model/nodes.h"

#define SYMBOLS_MAX (1u << 22)

/* A code address as the key of a lookup. */
struct place {
	uint32_t module;  /* index, or MODULES_NONE: the offset is an address */
	uint64_t offset;  /* address - bias */
	bool interpreted; /* `offset` is the number of an interpreted function, which is in no
			     module */
};

struct symbol_frame {
	const char *function; /* demangled; NULL: unknown */
	const char *file;     /* NULL: unknown */
	uint32_t line;	      /* 0: unknown */
};

struct symbol {
	uint32_t first; /* index in symbols.frame */
	uint32_t count; /* at least 1 */
};

/* Zero-initialised is empty and valid. */
struct symbols {
	struct map by_place;
	struct symbol *symbol;
	size_t count, capacity;
	struct symbol_frame *frame;
	size_t frame_count, frame_capacity;
};

/* Whether a frame's line is the first line of its function, not the line of the call. True for code
 * that a runtime generated (JavaScript). */
static inline bool symbols_line_is_first(struct place place, const struct symbol_frame *frame)
{
	return place.module == MODULES_NONE && frame->line != 0;
}

/* A number that identifies the place; false for an offset that is too large for an address. */
bool place_key(struct place place, uint64_t *ret);
/* The place of a node's lookup address (nodes.h). */
HT_MUST_CHECK
struct ht_err *place_of_node(struct modules *modules, const struct node *node, struct place *ret);

void symbols_deinit(struct symbols *symbols);
/* Adds the frames of a place; strings are interned in `strings`. Does nothing if the place is
 * already known or has no key (place_key), `frame_count` is 0, or there are SYMBOLS_MAX places. */
HT_MUST_CHECK
struct ht_err *symbols_add(struct symbols *symbols, struct strings *strings, struct place place,
	const struct rec_frame *frame, uint64_t frame_count);
/* As symbols_add, but replaces the frames of a known place if only the new ones give the source
 * file of the function. */
HT_MUST_CHECK
struct ht_err *symbols_improve(struct symbols *symbols, struct strings *strings, struct place place,
	const struct rec_frame *frame, uint64_t frame_count);
/* Adds a record of the trace; ignores a record whose module is not in the trace. */
HT_MUST_CHECK
struct ht_err *symbols_take(struct symbols *symbols, struct strings *strings,
	const struct modules *modules, const struct rec_symbol *rec);
/* The frames of a place; an unknown interpreted function gets the frame of its interpreter. NULL
 * and 0 if nothing is known. Valid until frames are added. */
const struct symbol_frame *symbols_find(
	const struct symbols *symbols, struct place place, uint32_t *ret_count);
