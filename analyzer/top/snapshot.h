/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of one moment: of the whole process, and of each site. A process that reads the trace
 * makes it (gather.h) and passes it on in a file, so the process with the table needs no analysis.
 */
#pragma once

#include <stdio.h>

#include "format/base.h"
#include "format/err.h"

#define SNAPSHOT_TREND	    32u
#define SNAPSHOT_ROWS_MAX   4096u
#define SNAPSHOT_FRAMES_MAX 40u /* most frames of one chain */
#define SNAPSHOT_NAME_BYTES 512u
#define SNAPSHOT_NONE	    UINT32_MAX

/* Sums since the capture began. */
struct snapshot_sums {
	uint64_t outstanding_bytes, outstanding_blocks;
	/* In a sample: the bound of outstanding_bytes at 95 % (query/metric.h); otherwise 0. */
	uint64_t outstanding_bound_bytes;
	uint64_t allocated_bytes, allocations, temporary;
	int64_t per_minute_bytes; /* change of outstanding bytes within the last minute */
};

/* A site: stacks that look the same in one line. */
struct snapshot_row {
	uint64_t id; /* stays the same from snapshot to snapshot */
	struct snapshot_sums sums;
	uint64_t oldest_ns; /* age of the oldest block that is outstanding; 0: there is none */
	bool is_growing;
	double slope_bytes_per_s; /* of a growing site */
	uint32_t chains;
	/* Texts (see snapshot_function), or SNAPSHOT_NONE. */
	uint32_t function, caller, script;
	uint32_t frame, frame_count; /* the largest chain, innermost first (snapshot_frame) */
	uint32_t trend_count;
	uint64_t trend[SNAPSHOT_TREND]; /* outstanding bytes, from the beginning on */
};

struct snapshot_figures {
	uint64_t time_ns; /* since the capture began */
	struct snapshot_sums sums;
	bool has_rss, is_estimate, has_end;
	uint64_t rss_bytes, threads, sites, growing;
	double slope_bytes_per_s; /* of all growing sites */
	uint64_t end_reason;	  /* enum rec_end_reason, if the trace has its end */
	uint32_t trend_count;
	uint64_t trend[SNAPSHOT_TREND];
};

struct snapshot {
	struct snapshot_figures figures;
	uint32_t row_count, frame_count, text_bytes;
	struct snapshot_row *row; /* growing ones first, then those with most outstanding bytes */
	/* `text` has pairs of strings, harmless on a terminal: a function and its place. A text is
	 * the offset of such a pair; `frame` has the texts of the rows' chains. */
	uint32_t *frame;
	char *text;
};

/* Writes the snapshot for snapshot_read of the same build. */
HT_MUST_CHECK
struct ht_err *snapshot_write(FILE *out, const struct snapshot *snapshot);
/* Reads the whole file `fd`, from its beginning. HT_ERR_FORMAT if the file was cut or is malformed.
 * snapshot_destroy frees the snapshot. */
HT_MUST_CHECK
struct ht_err *snapshot_read(int fd, struct snapshot **ret);
HT_MUST_CHECK
struct ht_err *snapshot_copy(const struct snapshot *snapshot, struct snapshot **ret);
void snapshot_destroy(struct snapshot *snapshot);
/* Moves `*now` to `*before` and `next` to `*now`, and destroys the former `*before`. If the trace
 * had nothing new for `next`, `next` replaces `*now` and `*before` stays, so that rates count over
 * a time with data. */
void snapshot_follow(struct snapshot **before, struct snapshot **now, struct snapshot *next);

/* The function of a text; "" for SNAPSHOT_NONE. */
const char *snapshot_function(const struct snapshot *snapshot, uint32_t text);
/* The place of a text: file and line, or the module; may be empty. */
const char *snapshot_place(const struct snapshot *snapshot, uint32_t text);
/* The text of a frame of the row's chain. */
uint32_t snapshot_frame(
	const struct snapshot *snapshot, const struct snapshot_row *row, uint32_t index);
