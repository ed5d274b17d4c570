/* SPDX-License-Identifier: Apache-2.0
 *
 * One function of a view: finds it by a part of its name; its own and inclusive values, its
 * callers, its callees, and its lines.
 */
#pragma once

#include "analyzer/views/calls.h"

/* A function with figures whose name contains the searched text. */
struct function_match {
	uint32_t group; /* of the call tree */
	struct calls_sum sum;
	const char *function; /* NULL: only module and offset are known */
};

struct function_matches {
	struct function_match *match; /* most inclusive value first */
	size_t count;
	/* All matches are one function: the searched text is the whole name, or the name without
	 * its parameters; or there is only one match. */
	bool is_one;
};

#define FUNCTION_NAME_BYTES 1024u

/* The name by which function_find searches a frame: the function; if unknown, module and offset; if
 * no module, the address. */
void function_name(
	const struct view *view, const struct frame *frame, char ret[FUNCTION_NAME_BYTES]);
/* `calls` is a top-down tree by function. HT_ERR_USAGE with the reason if nothing matches. */
HT_MUST_CHECK
struct ht_err *function_find(
	const struct calls *calls, const char *text, struct function_matches *ret);
void function_matches_deinit(struct function_matches *matches);

struct function_entry {
	uint32_t group; /* of the call tree */
	struct figure figure;
};

struct function_line {
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: unknown */
	uint32_t frame;	  /* a frame of the view with this line */
	struct calls_sum sum;
};

/*
 * In a recursion, `caller` counts the caller of the outermost call, and `callee` the callee of the
 * innermost one. So all callers and `outermost` add up to `inclusive`, and so do all callees and
 * `own`.
 */
struct function {
	struct calls_sum sum;
	struct figure outermost; /* of chains in which the function has no caller */
	struct figure recursive; /* of chains that contain the function several times */
	struct function_entry *caller, *callee; /* largest value first */
	size_t caller_count, callee_count;
	struct function_line *line; /* by file and line */
	size_t line_count;
};

/* All `matches` count as one function. */
HT_MUST_CHECK
struct ht_err *function_init(struct function *function, const struct calls *calls,
	const struct function_matches *matches);
void function_deinit(struct function *function);
