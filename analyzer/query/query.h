/* SPDX-License-Identifier: Apache-2.0
 *
 * One question to a trace: which window, which blocks, measured how. Every command fills one from
 * its options, and every view answers it.
 */
#pragma once

#include "analyzer/query/metric.h"
#include "format/err.h"

#define QUERY_WORDS_MAX 256u

/* Words of one option, given several times. They are borrowed, but for those of query->owned. */
struct query_words {
	const char *word[QUERY_WORDS_MAX];
	size_t count;
};

struct query {
	const char *from, *to;	    /* moments as the user wrote them (moment.h); NULL: the ends */
	const char *alive_at;	    /* only blocks that are live then; NULL: all */
	struct query_words threads; /* names or ids; any of them */
	struct query_words modules; /* any frame in a module whose path contains any of them */
	struct query_words functions;  /* any frame whose function contains any of them */
	struct query_words excluded;   /* no frame's function or module contains any of them */
	struct query_words suppressed; /* the same, from a file of suppressions: patterns with * */
	uint64_t min_size, max_size;   /* requested bytes; query_init: 0 and UINT64_MAX */
	uint64_t min_age_ns, max_age_ns; /* lives of blocks, up to their free or the trace's end */
	bool shows_wrappers;		 /* chains are shown as they are */
	char *owned; /* text that words point into; NULL: none. query_deinit frees it */
};

/* Everything of the whole trace. */
void query_init(struct query *query);
void query_deinit(struct query *query);
/* Whether blocks are chosen by size or age: then facts are filtered while the trace is read. */
bool query_filters_blocks(const struct query *query);
/* Whether stacks or threads are chosen. */
bool query_filters_stacks(const struct query *query);
/* Adds a word; a usage error beyond QUERY_WORDS_MAX. `option` is for the message. */
HT_MUST_CHECK
struct ht_err *query_add(struct query_words *words, const char *option, const char *word);
