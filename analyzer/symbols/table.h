/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of code addresses: frames by (module, offset), innermost inlined function first.
 */
#pragma once

#include "analyzer/model/modules.h"
#include "analyzer/model/nodes.h"

#define SYMBOLS_MAX (1u << 22)

/* A code address, as it is looked up. */
struct place {
	uint32_t module;  /* index, or MODULES_NONE: the offset is an address */
	uint64_t offset;  /* address - bias */
	bool interpreted; /* no address: the number of an interpreted function, in no module */
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
	size_t made_count; /* of those in no module */
	struct symbol_frame *frame;
	size_t frame_count, frame_capacity;
};

/* Code that a runtime makes (JavaScript) is known by its functions alone: the line is the one where
 * the function begins, not that of the call. */
static inline bool symbols_line_is_first(struct place place, const struct symbol_frame *frame)
{
	return place.module == MODULES_NONE && frame->line != 0;
}

/* One number per place; false for an offset that no address can have. */
bool place_key(struct place place, uint64_t *ret);
/* Where `node` is, by its lookup address (nodes.h). */
HT_MUST_CHECK
struct ht_err *place_of_node(struct modules *modules, const struct node *node, struct place *ret);

void symbols_deinit(struct symbols *symbols);
/* Adds what is known about a place; strings go to `strings`. A place that is known already, and a
 * symbol without frames, are left alone. */
HT_MUST_CHECK
struct ht_err *symbols_add(struct symbols *symbols, struct strings *strings, struct place place,
	const struct rec_frame *frame, uint64_t frame_count);
/* As symbols_add; but of a place without a line, where now one is known, the new frames are kept.
 */
HT_MUST_CHECK
struct ht_err *symbols_improve(struct symbols *symbols, struct strings *strings, struct place place,
	const struct rec_frame *frame, uint64_t frame_count);
/* Adds what a record of the trace says; one about a module that is not in the trace is left out. */
HT_MUST_CHECK
struct ht_err *symbols_take(struct symbols *symbols, struct strings *strings,
	const struct modules *modules, const struct rec_symbol *rec);
/* The frames of a place; an interpreted function of which nothing is known has that of what
 * interprets it. NULL and 0 when nothing is known. Valid until the next symbols_add. */
const struct symbol_frame *symbols_find(
	const struct symbols *symbols, struct place place, uint32_t *ret_count);
