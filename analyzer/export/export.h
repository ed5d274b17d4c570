/* SPDX-License-Identifier: Apache-2.0
 *
 * What other programs read: one function per format, all of them deterministic, none of them
 * closing its output.
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/view.h"

/* Collapsed stacks, "root;caller;leaf N", one line per row whose `metric` is above 0. */
HT_MUST_CHECK
struct ht_err *export_collapsed(FILE *out, const struct view *view, enum metric metric);

/* The totals that heaptrack_print computes from an export, by its rules: temporary means that the
 * object before this free was allocated with the same size and stack, by any thread. */
struct export_heaptrack_stats {
	uint64_t calls, temporary, peak_bytes, leaked_bytes;
	uint64_t sample_bytes; /* not 0: an object is a sample, with the bytes that it stands for */
};

/*
 * heaptrack's interpreted format 3, as events. Reads the trace on `fd` twice, so that it must be
 * seekable: names stand at the end of a trace, and heaptrack wants them first. Frees of blocks
 * older than the window are left out, as heaptrack does.
 */
HT_MUST_CHECK
struct ht_err *export_heaptrack(FILE *out, int fd, const char *name,
	const struct resolve_files *files, struct export_heaptrack_stats *ret);
