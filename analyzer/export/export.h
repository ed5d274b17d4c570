/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports for other programs: one table of formats, each with its writer. Writers are deterministic
 * and do not close their output. They print figures of a view; writers of events read the trace
 * once more (events.h).
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/view.h"

/* The totals that heaptrack_print computes from an export, by its rules: a free is temporary if the
 * event before it is an allocation of the same size and stack, by any thread. */
struct export_heaptrack_stats {
	uint64_t calls, temporary, peak_bytes, leaked_bytes;
	uint64_t sample_bytes; /* not 0: each object is a sample, and its size is the bytes that the
				  sample represents */
};

#define EXPORT_NOTE_BYTES 256u

/* Limits of a server that collects profiles. A profile for it is dated with the end of the window,
 * has no threads, and has a name for each location. The stacks with least outstanding bytes become
 * one, "(folded)", until the profile is within the limits. */
struct export_server {
	size_t samples_max, bytes_max;
};

/* Input of a writer, and its results besides the file. */
struct export_job {
	const struct view *view;
	const struct view *older; /* the trace to compare with; NULL if the format has one trace */
	enum metric metric;
	/* The trace of `view`, for events: a seekable descriptor, and the offset at which the trace
	 * begins. */
	int fd;
	int64_t start;
	const char *name;
	const struct export_server *server;  /* for export_pprof; NULL: a file for people */
	struct export_heaptrack_stats stats; /* filled by export_heaptrack */
	char note[EXPORT_NOTE_BYTES]; /* a sentence for the user, or "": filled by the writer */
};

/* Traits of a format. */
enum export_trait {
	EXPORT_METRIC = 1u << 0, /* the format has one figure, selected by --metric */
	EXPORT_ROWS = 1u << 1, /* its chains omit the frames that reports omit; formats without this
				  trait have every frame */
	/* the format has single events, so its writer reads the trace again */
	EXPORT_EVENTS = 1u << 2,
	EXPORT_SERIES = 1u << 3,     /* the format has memory over time */
	EXPORT_COMPARISON = 1u << 4, /* the format compares two traces */
	EXPORT_STATS = 1u << 5,	     /* the writer fills export_job.stats */
};

#define EXPORT_TOTALS                                                                              \
	"allocations allocated_bytes outstanding_blocks outstanding_bytes peak_bytes temporary"

/*
 * name; writer; purpose; which figures of `totals` in report --json are equal to the sums of an
 * export; traits
 */
#define EXPORTS(X)                                                                                 \
	X("collapsed", export_collapsed, "flame graphs", "outstanding_bytes",                      \
		EXPORT_METRIC | EXPORT_ROWS)                                                       \
	X("difffolded", export_difffolded, "flame graphs of a difference", "outstanding_bytes",    \
		EXPORT_METRIC | EXPORT_ROWS | EXPORT_COMPARISON)                                   \
	X("heaptrack", export_heaptrack, "heaptrack_print and heaptrack_gui",                      \
		"allocations outstanding_bytes peak_bytes", EXPORT_EVENTS | EXPORT_STATS)          \
	X("pprof", export_pprof, "go tool pprof, also -diff_base", EXPORT_TOTALS, 0)               \
	X("speedscope", export_speedscope, "speedscope.app",                                       \
		"allocations allocated_bytes outstanding_bytes peak_bytes temporary", EXPORT_ROWS) \
	X("firefox", export_firefox, "profiler.firefox.com", "allocated_bytes outstanding_bytes",  \
		EXPORT_EVENTS | EXPORT_SERIES)                                                     \
	X("massif", export_massif, "ms_print and massif-visualizer",                               \
		"outstanding_bytes peak_bytes", EXPORT_ROWS | EXPORT_SERIES)                       \
	X("dhat", export_dhat, "dh_view.html of valgrind",                                         \
		"allocations allocated_bytes outstanding_blocks outstanding_bytes peak_bytes",     \
		EXPORT_ROWS | EXPORT_SERIES)                                                       \
	X("callgrind", export_callgrind, "callgrind_annotate and KCachegrind",                     \
		"allocations allocated_bytes outstanding_bytes peak_bytes temporary", EXPORT_ROWS) \
	X("csv", export_csv, "spreadsheets and scripts", EXPORT_TOTALS, EXPORT_ROWS)

struct export_format {
	const char *name;
	struct ht_err *(*write)(FILE *out, struct export_job *job);
	const char *purpose, *sums;
	unsigned traits;
};

extern const struct export_format export_format[];
extern const size_t export_format_count;
/* The names, ended by NULL, in the order of export_format. */
extern const char *const export_names[];
/* Refuses a metric or query that the format cannot answer, with a usage error that says why. */
HT_MUST_CHECK
struct ht_err *export_check(
	const struct export_format *format, const struct query *query, enum metric metric);

/* --- writers -----------------------------------------------------------------------------------
 */

/* Collapsed stacks, "root;caller;leaf N", one line per row whose metric is above 0. */
HT_MUST_CHECK
struct ht_err *export_collapsed(FILE *out, struct export_job *job);
/* Collapsed stacks of two traces: "root;caller;leaf OLDER NEWER". */
HT_MUST_CHECK
struct ht_err *export_difffolded(FILE *out, struct export_job *job);
/* heaptrack's interpreted format 3, as events. Frees of blocks older than the window are left out,
 * as heaptrack does. */
HT_MUST_CHECK
struct ht_err *export_heaptrack(FILE *out, struct export_job *job);
/* profile.proto, not compressed: one sample per stack and thread. */
HT_MUST_CHECK
struct ht_err *export_pprof(FILE *out, struct export_job *job);
/* One row per chain, with all metrics. */
HT_MUST_CHECK
struct ht_err *export_csv(FILE *out, struct export_job *job);
/* massif.out: memory over time, a tree of callers at the peak and at the end. */
HT_MUST_CHECK
struct ht_err *export_massif(FILE *out, struct export_job *job);
/* DHAT's JSON, version 2. */
HT_MUST_CHECK
struct ht_err *export_dhat(FILE *out, struct export_job *job);
/* callgrind.out: own figures of functions, and figures of the calls between functions. */
HT_MUST_CHECK
struct ht_err *export_callgrind(FILE *out, struct export_job *job);
/* speedscope's JSON: one profile per metric. */
HT_MUST_CHECK
struct ht_err *export_speedscope(FILE *out, struct export_job *job);
/* Firefox Profiler's processed profile, version 60: allocations as events, and a counter. */
HT_MUST_CHECK
struct ht_err *export_firefox(FILE *out, struct export_job *job);
