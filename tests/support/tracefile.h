/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads all events of a trace file without the analyzer, so that a test can compare them with the
 * target's own counts.
 */
#pragma once

#include "format/abi_hooks.h"
#include "format/event.h"
#include "format/record.h"

struct tracefile_node {
	uint64_t pc;
	uint32_t parent; /* id; 0: outermost */
	uint8_t flags;
	bool known; /* the trace has this node */
};

struct tracefile {
	struct event *event; /* in the order of the file, not of time; without mapping events */
	size_t event_count, event_room;
	struct tracefile_node *node; /* [node_room], by id; there is no node 0 */
	size_t node_room;
	uint64_t counter[REC_COUNTER_COUNT];
	uint64_t modules, threads, rss_samples, symbols;
	uint64_t mappings; /* number of mapping events */
	bool complete;	   /* has its footer */
	bool ended;
	enum rec_end_reason end_reason;
	struct event_decoder *stream; /* [stream_count], by slot */
	size_t stream_count;
};

/* Reads the trace at `path`. A damaged file or stream fails the test, a cut one does not. */
void tracefile_load(const char *path, struct tracefile *ret);
void tracefile_deinit(struct tracefile *file);

/* Successful calls of one function, and the bytes that they asked for. `tid` 0: all threads. */
struct tracefile_count {
	uint64_t calls, bytes;
};

struct tracefile_count tracefile_allocations(
	const struct tracefile *file, uint32_t tid, enum abi_hook hook);
/* The number of blocks that thread `tid` (0: all threads) freed, by free or a successful
 * realloc. */
uint64_t tracefile_frees(const struct tracefile *file, uint32_t tid);
/* How many allocations of this size the trace at `path` has; the trace must be complete. */
uint64_t tracefile_blocks_of(const char *path, uint64_t size);
