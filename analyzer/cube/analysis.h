/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace read and added up: what every report and most exports are made of.
 */
#pragma once

#include "analyzer/cube/heap.h"
#include "analyzer/cube/mappings.h"
#include "analyzer/model/model.h"
#include "analyzer/symbols/resolve.h"
#include "analyzer/symbols/table.h"

struct analysis {
	struct model model;
	struct symbols symbols; /* those of the trace; more may be added afterwards */
	struct cube cube;
	struct mappings mappings;
	struct heap_notes heap_notes;
	struct heap heap; /* when all is read */
};

/* Whether mappings were recorded: otherwise there are none. */
static inline bool analysis_has_mappings(const struct analysis *analysis)
{
	return analysis->model.capture.flags & REC_CAPTURE_MAPPINGS;
}

/* Reads the trace on `fd` (borrowed) to its end. */
HT_MUST_CHECK
struct ht_err *analysis_create(int fd, const char *name, struct analysis **ret);
void analysis_destroy(struct analysis *analysis);
/* Names what the trace does not name, from files on this machine. */
HT_MUST_CHECK
struct ht_err *analysis_resolve(struct analysis *analysis, const struct resolve_files *files);
