/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds a trace in memory for tests of its readers. Every function fails the running test when
 * something goes wrong.
 */
#pragma once

#include "format/writer.h"
#include "tests/support/eventbuild.h"

#define TRACEBUILD_SLOTS 64u

/* The builder counts the position in the stream of each slot (thread record): use tracebuild_events
 * for events. */
struct tracebuild {
	int fd; /* memfd; owned */
	struct trace_writer *writer;
	uint64_t sample_bytes; /* these two for tracebuild_start; 0 after tracebuild_init */
	uint64_t capture_flags;
	uint32_t node_count;		     /* ids 1 .. node_count exist */
	uint64_t position[TRACEBUILD_SLOTS]; /* of the next piece */
};

/* An empty trace: the header only. */
void tracebuild_init(struct tracebuild *build);
void tracebuild_deinit(struct tracebuild *build);

/* Appends any record unchanged. */
void tracebuild_put(struct tracebuild *build, const struct rec *rec);

/* Appends TARGET and CAPTURE of a plausible process; the window starts at mono_ns and tsc. */
void tracebuild_start(struct tracebuild *build, uint64_t pid, uint64_t mono_ns, uint64_t tsc);
/* Appends a module with one executable segment covering [lo, hi) from vaddr 0. Module 1 is the
 * program itself. `build_id` may be NULL. */
void tracebuild_module(struct tracebuild *build, uint64_t id, const char *path,
	const char *build_id, uint64_t lo, uint64_t hi);
void tracebuild_module_gone(struct tracebuild *build, uint64_t id, uint64_t epoch);
void tracebuild_thread(struct tracebuild *build, uint64_t tid, const char *name);
/* Appends one node; returns its id. `parent` 0: outermost frame. */
uint32_t tracebuild_node(struct tracebuild *build, uint32_t parent, uint64_t pc);
/* Appends new nodes for pc[0] (leaf) .. pc[count - 1] (outermost); returns the leaf's id. */
uint32_t tracebuild_stack(struct tracebuild *build, const uint64_t *pc, size_t count);
/* Appends all of events->out as the next complete buffer of `slot`, and empties `events`. */
void tracebuild_events(struct tracebuild *build, uint32_t slot, struct eventbuild *events);
/* Appends a SYNC, which says that all events before `tsc` are in the trace. */
void tracebuild_sync(struct tracebuild *build, uint64_t tsc, uint64_t mono_ns);
void tracebuild_rss(struct tracebuild *build, uint64_t mono_ns, uint64_t rss_bytes);
void tracebuild_loss(struct tracebuild *build, enum rec_counter counter, uint64_t total);
/* Appends a SYMBOL with one frame. `file` may be NULL. */
void tracebuild_symbol(struct tracebuild *build, uint64_t module_id, uint64_t offset,
	const char *function, const char *file, uint64_t line);
void tracebuild_end(
	struct tracebuild *build, enum rec_end_reason reason, uint64_t mono_ns, uint64_t tsc);

/* Writes the footer and returns the memfd, rewound; still owned by `build`. No put afterwards. */
int tracebuild_finish(struct tracebuild *build);
/* A memfd that holds these bytes, rewound; the caller closes it. */
int tracebuild_memfd(const void *data, size_t length);
/* Reads a whole file from its beginning; the caller deinitialises `out`. */
void tracebuild_slurp(int fd, struct bytes_out *out);
