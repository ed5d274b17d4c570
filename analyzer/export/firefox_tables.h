/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a Firefox profile: stacks (of frames), frames (of functions), functions (with file
 * and library), and strings. Entries are added when a stack first needs them, so the tables have no
 * unused entries.
 */
#pragma once

#include <stdio.h>

#include "analyzer/export/pool.h"
#include "analyzer/views/view.h"

struct firefox_stack {
	uint32_t prefix; /* index + 1; 0: none */
	uint32_t frame;
};

struct firefox_function {
	uint32_t name, source; /* a string; index + 1 of a source, 0: none */
	uint32_t lib;	       /* index + 1; 0: none */
	bool is_script;
};

struct firefox_tables {
	const struct view *view;
	struct pool pool;
	uint32_t *stack_of; /* by nodes_index: index + 1 of its innermost frame's stack; 0: none */
	struct firefox_stack *stack;
	size_t stack_count, stack_capacity;
	uint32_t *number_of; /* by frame of the view: index + 1; 0: not used yet */
	uint32_t *frame;     /* by index: frame of the view */
	size_t frame_count;
	uint32_t *function_of; /* by index of a frame */
	struct map by_name;    /* (name, source) -> pair; (pair, lib) -> function */
	struct map by_lib;
	uint32_t pair_count;
	struct firefox_function *function;
	size_t function_count, function_capacity;
	struct map source_of; /* by string */
	uint32_t *source;     /* strings */
	size_t source_count, source_capacity;
	uint32_t *lib_of; /* by module: index + 1; 0: not used yet */
	uint32_t *lib;	  /* by index: module */
	size_t lib_count;
	uint32_t *scratch; /* one number per node */
};

HT_MUST_CHECK
struct ht_err *firefox_tables_init(struct firefox_tables *tables, const struct view *view);
void firefox_tables_deinit(struct firefox_tables *tables);
/* Index + 1 of the stack that ends with this node; 0 for no stack. */
HT_MUST_CHECK
struct ht_err *firefox_tables_stack(struct firefox_tables *tables, uint32_t leaf, uint32_t *ret);
/* Writes "libs" and "shared", the last members of a profile, without its closing brace. */
HT_MUST_CHECK
struct ht_err *firefox_tables_put(FILE *out, struct firefox_tables *tables);
