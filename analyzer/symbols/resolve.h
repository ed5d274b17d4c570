/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds names for the places of a trace that have none yet, module by module, in the files on this
 * machine.
 */
#pragma once

#include "analyzer/model/model.h"
#include "analyzer/symbols/table.h"

/* Receives the frames of one place, innermost first; valid during the call. */
typedef struct ht_err *resolve_sink(
	void *context, struct place place, const struct rec_frame *frame, uint64_t frame_count);

/* Resolves every place of model->nodes that is not in `known`. A place for which nothing is found
 * is not reported. `sysroot` is put before each path; "" for none. */
HT_MUST_CHECK
struct ht_err *resolve_places(struct model *model, const struct symbols *known, const char *sysroot,
	resolve_sink *sink, void *context);
