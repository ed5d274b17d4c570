/* SPDX-License-Identifier: Apache-2.0
 *
 * One query of a trace: window, filters of blocks, threads and stacks. Commands that show figures
 * fill one from their options, and every view answers it.
 */
#pragma once

#include "analyzer/query/metric.h"
#include "format/err.h"

#define QUERY_WORDS_MAX 256u

/* The words of an option that may be given several times. They are borrowed, or point into
 * query->owned. */
struct query_words {
	const char *word[QUERY_WORDS_MAX];
	size_t count;
};

struct query {
	const char *from, *to;	    /* moments as the user wrote them (moment.h); NULL: the ends */
	const char *alive_at;	    /* only blocks that are live at this moment; NULL: all */
	struct query_words threads; /* blocks of threads with any of these names or ids */
	struct query_words modules; /* stacks with a frame in a module whose path contains any of
				       these words */
	/* stacks with a frame whose function contains any of these words */
	struct query_words functions;
	struct query_words excluded; /* stacks without a frame whose function or module contains any
					of these words */
	/* as `excluded`, but patterns (with *, ^ and $) of files of suppressions; they match a
	 * frame's file, too */
	struct query_words suppressed;
	uint64_t min_size, max_size;	 /* requested bytes; query_init: 0 and UINT64_MAX */
	uint64_t min_age_ns, max_age_ns; /* lives of blocks, up to their free or the trace's end */
	bool shows_wrappers;		 /* chains are shown with all their frames */
	char *owned; /* text that words point into; NULL: none. query_deinit frees it */
};

/* Initialises a query for all blocks of the whole trace. */
void query_init(struct query *query);
void query_deinit(struct query *query);
/* Whether the query selects blocks by size or age: blocks are then filtered while the trace is
 * read. */
bool query_filters_blocks(const struct query *query);
/* Whether the query selects stacks or threads. */
bool query_filters_stacks(const struct query *query);
/* Adds a word; a usage error beyond QUERY_WORDS_MAX. `option` is for the message. */
HT_MUST_CHECK
struct ht_err *query_add(struct query_words *words, const char *option, const char *word);
