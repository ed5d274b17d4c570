/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the growing trace of a capture step by step into an analysis.
 */
#pragma once

#include "analyzer/cube/analysis.h"

struct tail {
	int fd;
	const char *path; /* borrowed */
	bool is_private; /* only this program reads the file, and once: its blocks are freed on disk
			    after reading */
	/* NULL while the trace has no header yet. Complete it (analysis_end) only in a forked child
	 * that ends afterwards. */
	struct analysis *analysis;
	uint64_t read_bytes, freed_bytes;
	bool has_more; /* more bytes can be read at once */
};

/* `path` is borrowed. Call tail_close also after an error. */
HT_MUST_CHECK
struct ht_err *tail_open(struct tail *tail, const char *path, bool is_private);
/* Reads the part of the trace that has been written by now, at most about `most` bytes. After an
 * error, the analysis of earlier bytes stays valid. */
HT_MUST_CHECK
struct ht_err *tail_read_on(struct tail *tail, uint64_t most);
void tail_close(struct tail *tail);
