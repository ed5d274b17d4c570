/* SPDX-License-Identifier: Apache-2.0
 *
 * One function of a view: found by a part of its name, its own and inclusive values, who calls it,
 * what it calls, and its lines.
 */
#pragma once

#include "analyzer/views/calls.h"

/* A function with figures whose name contains what was looked for. */
struct function_match {
	uint32_t group; /* of the call tree */
	struct calls_sum sum;
	const char *function; /* NULL: only module and offset are known */
};

struct function_matches {
	struct function_match *match; /* those with most inclusive first */
	size_t count;
	/* All matches are one function by name: the whole name is what was looked for, or all of it
	 * but the parameters; or there is one match. */
	bool is_one;
};

#define FUNCTION_NAME_BYTES 1024u

/* The name of a frame as it is looked for: the function, else module and offset, else the address.
 */
void function_name(
	const struct view *view, const struct frame *frame, char ret[FUNCTION_NAME_BYTES]);
/* `calls` is a top-down tree by function. Without a match, a usage error that says why. */
HT_MUST_CHECK
struct ht_err *function_find(
	const struct calls *calls, const char *text, struct function_matches *ret);
void function_matches_deinit(struct function_matches *matches);

struct function_entry {
	uint32_t group; /* of the call tree */
	int64_t value;
	double variance; /* of a sample (query/metric.h); else 0 */
};

struct function_line {
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: unknown */
	uint32_t frame;	  /* of the view: one of this line */
	struct calls_sum sum;
};

/*
 * `caller`s are those of the outermost of recursive calls, `callee`s those of the innermost one. So
 * all callers and `outermost` add up to `inclusive`, and so do all callees and `own`.
 */
struct function {
	struct calls_sum sum;
	/* `value` and `variance` alone: */
	struct function_entry outermost; /* chains that end with the function: it has no caller */
	struct function_entry recursive; /* chains in which it stands several times */
	struct function_entry *caller, *callee; /* those with most first */
	size_t caller_count, callee_count;
	struct function_line *line; /* by file and line */
	size_t line_count;
};

/* `matches` are taken for one function. */
HT_MUST_CHECK
struct ht_err *function_init(struct function *function, const struct calls *calls,
	const struct function_matches *matches);
void function_deinit(struct function *function);
