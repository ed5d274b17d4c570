/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace that a capture is writing, read on step by step into an analysis.
 */
#pragma once

#include "analyzer/cube/analysis.h"

struct tail {
	int fd;
	const char *path; /* borrowed */
	bool is_private;  /* this program alone reads it, once: blocks that were read are freed on
			     disk */
	/* NULL while the trace has no header yet. Only a process that ends afterwards may complete
	 * it (analysis_end): a copy made by fork. */
	struct analysis *analysis;
	uint64_t read_bytes, freed_bytes;
	bool has_more; /* there is more to read at once */
};

/* `path` is borrowed. tail_close also after an error. */
HT_MUST_CHECK
struct ht_err *tail_open(struct tail *tail, const char *path, bool is_private);
/* Reads what has been written by now, at most about `most` bytes. After an error, what was read
 * stays valid. */
HT_MUST_CHECK
struct ht_err *tail_read_on(struct tail *tail, uint64_t most);
void tail_close(struct tail *tail);
