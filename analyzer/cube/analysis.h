/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace read and added up: what every report and most exports are made of.
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
	struct symbols symbols; /* those of the trace; more may be added afterwards */
	struct cube cube;	/* of the blocks that the query chooses by size and age */
	struct cube whole;	/* of all blocks, if filters_blocks */
	bool filters_blocks;
	uint64_t min_size, max_size, min_age_ns, max_age_ns; /* of the query */
	struct mappings mappings;
	struct heap_notes heap_notes;
	struct heap heap;	       /* when all is read */
	struct model_reading *reading; /* of analysis_begin */
};

/* Whether mappings were recorded: otherwise there are none. */
static inline bool analysis_has_mappings(const struct analysis *analysis)
{
	return analysis->model.capture.flags & REC_CAPTURE_MAPPINGS;
}

/* Everything that was recorded, for what is about the process as a whole. */
static inline const struct cube *analysis_whole(const struct analysis *analysis)
{
	return analysis->filters_blocks ? &analysis->whole : &analysis->cube;
}

/* Reads the trace on `fd` (borrowed) to its end. Of `query` (not kept) sizes and ages are applied
 * here, a block's age being its life up to its free or the end of the trace; the rest is the
 * view's. NULL: all blocks. Frees of older blocks, of which neither is known, are left out with
 * those that are not chosen. */
HT_MUST_CHECK
struct ht_err *analysis_create(
	int fd, const char *name, const struct query *query, struct analysis **ret);
/* The same step by step, for a trace that grows, of all blocks; `name` must last as long. */
HT_MUST_CHECK
struct ht_err *analysis_begin(int fd, const char *name, struct analysis **ret);
/* Reads what has been written by now, at most about `bytes` of it; model.how_ended is TRACE_MORE
 * where there is more. */
HT_MUST_CHECK
struct ht_err *analysis_continue(struct analysis *analysis, uint64_t bytes);
/* Makes what was read as whole as analysis_create does; no more can be read. */
HT_MUST_CHECK
struct ht_err *analysis_end(struct analysis *analysis);
void analysis_destroy(struct analysis *analysis);
/* Names what the trace does not name, from files on this machine. */
HT_MUST_CHECK
struct ht_err *analysis_resolve(struct analysis *analysis, const struct resolve_files *files);
