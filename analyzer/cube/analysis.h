/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace that was read and summed up: the source of every report and of most exports.
 */
#pragma once

#include "analyzer/cube/heap.h"
#include "analyzer/cube/mappings.h"
#include "analyzer/model/model.h"
#include "analyzer/query/query.h"
#include "analyzer/symbols/resolve.h"
#include "analyzer/symbols/table.h"

struct analysis {
	struct model model;
	struct symbols symbols; /* the names in the trace; analysis_resolve may add more */
	struct cube cube;	/* of the blocks that the query chooses by size and age */
	struct cube whole;	/* of all blocks, if filters_blocks */
	bool filters_blocks;
	uint64_t min_size, max_size, min_age_ns, max_age_ns; /* of the query */
	struct mappings mappings;
	struct heap_notes heap_notes;
	struct heap heap;	       /* valid after the trace is read */
	struct model_reading *reading; /* of analysis_begin */
};

/* Whether the capture recorded mappings. */
static inline bool analysis_has_mappings(const struct analysis *analysis)
{
	return analysis->model.capture.flags & REC_CAPTURE_MAPPINGS;
}

/* The cube of all recorded blocks, for figures about the whole process. */
static inline const struct cube *analysis_whole(const struct analysis *analysis)
{
	return analysis->filters_blocks ? &analysis->whole : &analysis->cube;
}

/* Reads the trace on `fd` (borrowed) to its end. Applies only the sizes and ages of `query` (not
 * kept); the view applies the rest. A block's age is its life up to its free or the end of the
 * trace. NULL: all blocks. With such a filter, frees of older blocks are left out: their size and
 * age are unknown. */
HT_MUST_CHECK
struct ht_err *analysis_create(
	int fd, const char *name, const struct query *query, struct analysis **ret);
/* Begins to read a growing trace step by step, with all blocks; `name` must outlive the analysis.
 */
HT_MUST_CHECK
struct ht_err *analysis_begin(int fd, const char *name, struct analysis **ret);
/* Reads the part of the trace that has been written by now, at most about `bytes`; model.how_ended
 * is TRACE_MORE if unread bytes remain. */
HT_MUST_CHECK
struct ht_err *analysis_continue(struct analysis *analysis, uint64_t bytes);
/* Completes the analysis of the part that was read, as analysis_create does; analysis_continue must
 * not follow. */
HT_MUST_CHECK
struct ht_err *analysis_end(struct analysis *analysis);
void analysis_destroy(struct analysis *analysis);
/* Finds names that the trace lacks, from files on this machine. */
HT_MUST_CHECK
struct ht_err *analysis_resolve(struct analysis *analysis, const struct resolve_files *files);
