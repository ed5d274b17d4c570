/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of a trace that a view is about: those in its window, of blocks that were allocated in
 * it, by stacks, threads and sizes that its query chooses.
 */
#pragma once

#include "analyzer/export/export.h"

/* Reads the job's trace again, from its start. The observer's functions may be NULL as those of a
 * struct model_observer; it calls `allocated` and `freed` for events, and `rss` within the window.
 * Nodes and threads have the numbers that they have in the view's analysis; times count from the
 * start of the window. */
HT_MUST_CHECK
struct ht_err *events_read(const struct export_job *job, const struct model_observer *observer);
/* The end of the window, on the same clock. */
uint64_t events_end_ns(const struct view *view);
