/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds names for the places of a trace that have none yet, module by module, in files on this
 * machine; for places in no module, in a perf map.
 */
#pragma once

#include <time.h>

#include "analyzer/model/model.h"
#include "analyzer/symbols/finder.h"
#include "analyzer/symbols/table.h"

/* Receives the frames of one place, innermost first; valid during the call. */
typedef struct ht_err *resolve_sink(
	void *context, struct place place, const struct rec_frame *frame, uint64_t frame_count);

struct resolve_files {
	const char *sysroot; /* searched first; "": none */
	const char *debug_dir[FINDER_DEBUG_DIRS_MAX];
	size_t debug_dir_count;
	const char *perf_map; /* NULL: none; a map that cannot be read is an error */
	const char *own_map;  /* map for perf_map_take_own; used if perf_map is NULL */
	time_t own_since;
	bool uses_cache; /* symbols/cache.h */
	bool has_handover;
	int handover; /* with has_handover: a socket that delivers files of the target */
};

/* Resolves every place of model->nodes that is not in `known`, except interpreted functions; if the
 * user named a sysroot or a directory of debug files, also known places without a source file. A
 * place for which nothing is found is not reported. Notes in model->modules why names of a module
 * are missing. */
HT_MUST_CHECK
struct ht_err *resolve_places(struct model *model, const struct symbols *known,
	const struct resolve_files *files, resolve_sink *sink, void *context);
