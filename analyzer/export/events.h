/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the events that belong to a view: events within its window, of blocks that were allocated
 * in the window, whose stacks, threads and sizes the view's query selects.
 */
#pragma once

#include "analyzer/export/export.h"

/* Reads the job's trace again, from its start. Of the observer's functions it calls `allocated` and
 * `freed` for events, and `memory` for samples within the window; each may be NULL.
 * Node ids and thread indices are those of the view's analysis; times count from the start of the
 * window. */
HT_MUST_CHECK
struct ht_err *events_read(const struct export_job *job, const struct model_observer *observer);
/* Length of the view's window: the time of its end in events_read. */
uint64_t events_end_ns(const struct view *view);
