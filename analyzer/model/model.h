/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a trace once. Keeps the data about target, capture, modules, threads and stacks; passes
 * events on as facts. Memory is bounded by live blocks and distinct stacks. Symbol records are
 * passed to the observer, not kept.
 */
#pragma once

#include "analyzer/model/culled.h"
#include "analyzer/model/modules.h"
#include "analyzer/model/nodes.h"
#include "analyzer/model/replay.h"
#include "format/streams.h"
#include "analyzer/model/strings.h"
#include "analyzer/model/threads.h"
#include "format/timebase.h"
#include "format/memory.h"
#include "format/reader.h"

#define MODEL_MARKS_MAX 4096u

struct model_mark {
	uint64_t time_ns; /* since the window's start */
	const char *text;
};

#define MODEL_PAUSES_MAX 4096u

/* A time during which no new block was recorded. Pauses are in order and do not overlap. */
struct model_pause {
	uint64_t begin_ns, end_ns; /* since the window's start; an unfinished pause ends with the
				      window */
};

/* The time after the window in which only frees of its blocks were recorded. The window's figures
 * end at begin_ns. */
struct model_settle {
	bool is_there;
	uint64_t begin_tsc;
	uint64_t begin_ns, end_ns; /* since the window's start; end_ns is where the reading ended */
	uint64_t wanted_ns;	   /* the length that the user gave */
};

static inline uint64_t model_settle_ns(const struct model_settle *settle)
{
	return settle->end_ns - settle->begin_ns;
}

/* Memory that one allocator held, as in FORMAT.md. */
struct model_account {
	const char *allocator, *reason;
	bool known;
	uint64_t held_bytes, off_bytes, system_bytes, arenas, header_bytes;
};

/* Figures of MEMORY and RSS records: by kind, the first and last number and how often it was known.
 */
struct model_memory {
	struct memory first, last;
	uint64_t count[MEMORY_KIND_COUNT];
};

#define MODEL_HEAPS_MAX 64u

struct model_heap {
	uint64_t begin_tsc, end_tsc;
	size_t account_count;
	struct model_account account[TRACE_ACCOUNTS_MAX];
};

struct model {
	struct strings strings;
	struct modules modules;
	struct nodes nodes;
	struct threads threads;
	struct timebase timebase;

	bool has_target, has_capture, has_end;
	struct rec_target target; /* numbers only; the strings are below */
	const char *comm, *exe, *kernel, *heaptap_version;
	struct rec_capture capture;
	struct rec_end end;
	/* Length of the window: to the settle record, the end record, or the last clock pair
	 */
	uint64_t duration_ns;
	struct model_settle settle;
	uint64_t counter[REC_COUNTER_COUNT];
	struct model_memory memory;
	uint64_t rss_max_bytes;
	struct model_mark *mark;
	size_t mark_count, mark_capacity;
	bool has_left; /* the trace has a LEFT record */
	enum rec_left_result left;
	uint64_t left_checks;
	const char *left_why;	   /* NULL: no reason is given */
	struct model_pause *pause; /* the first MODEL_PAUSES_MAX */
	size_t pause_count, pause_capacity;
	struct model_heap *heap; /* the first MODEL_HEAPS_MAX */
	size_t heap_count, heap_capacity;

	uint64_t limit_bytes; /* set by the caller: read only so many bytes of the file; 0: all */
	uint64_t seen_bytes;  /* file bytes read; with this as limit_bytes, a second model reads the
				 same */
	enum trace_end how_ended; /* TRACE_MORE only between two model_reading_continue */
	bool is_growing;	  /* TRACE_TRUNCATED, because the capture still runs */
	const char *problem;	  /* why the file ended early, or NULL */
	bool has_events;	  /* events were read: `damage` and `counts` are valid */
	struct streams_damage damage;
	struct replay_counts counts;
	uint64_t culled_events; /* those of counts.events that are only in sums of CULLED records */
};

/* Receives the content of a trace while it is read. Any function may be NULL, except replay.freed
 * and replay.before_freed if replay.allocated is not NULL. */
struct model_observer {
	struct replay_observer replay; /* replay.context is the context of all functions here */
	/* time_ns since the window's start */
	struct ht_err *(*memory)(void *context, uint64_t time_ns, const struct memory *sample);
	struct ht_err *(*symbol)(void *context, const struct rec_symbol *symbol);
	/* A range that was mapped before the window. */
	struct ht_err *(*mapped_before)(void *context, const struct rec_range *range);
	/* Called when all events before the beginning (or end) of heap reading `index` have passed.
	 */
	struct ht_err *(*heap)(void *context, size_t index, bool ended);
	/* Called after CAPTURE was read: model.capture is valid. */
	struct ht_err *(*captured)(void *context);
	/* Sums of culled blocks; called after all events of their interval. */
	culled_observer *culled;
};

/*
 * Reads the trace on `fd` (borrowed, from its present position) into `model`, which is
 * zero-initialised except for limit_bytes, and calls the observer. The tables of `model` are valid
 * during these calls. A cut or damaged file is not an error: it is read as far as possible and
 * `how_ended` says so. HT_ERR_FORMAT if no record can be read. If replay.allocated is NULL, events
 * are not decoded.
 */
HT_MUST_CHECK
struct ht_err *model_load(
	struct model *model, int fd, const char *name, const struct model_observer *observer);
void model_deinit(struct model *model);

/* Reads a growing trace in a seekable file step by step. `model`, `name` and the observer's context
 * must outlive the reading; other arguments are copied. */
struct model_reading;
HT_MUST_CHECK
struct ht_err *model_reading_create(struct model *model, int fd, const char *name,
	const struct model_observer *observer, struct model_reading **ret);
/* Reads the part of the trace that has been written by now, at most about `bytes`; model->how_ended
 * is TRACE_MORE if unread bytes remain. */
HT_MUST_CHECK
struct ht_err *model_reading_continue(struct model_reading *reading, uint64_t bytes);
/* Releases the events that wait for more data, as at the end of a trace. No more can be read. */
HT_MUST_CHECK
struct ht_err *model_reading_finish(struct model_reading *reading);
void model_reading_destroy(struct model_reading *reading);

/* Whether the capture recorded every allocation. False for a sample, or with a pause: then the
 * events do not explain the growth of memory. */
static inline bool model_is_exact(const struct model *model)
{
	return !model->capture.sample_bytes && !model->pause_count;
}
/* Number of recorded events that are not in the trace although no counter says so: the trace is
 * damaged. 0 unless events were read up to TRACE_COMPLETE. */
uint64_t model_missing_events(const struct model *model);
/* Number of all events that the agent counted and the trace does not hold. */
uint64_t model_dropped_events(const struct model *model);
/* Number of recorded events of mappings that are not in the trace, for any reason. 0 unless events
 * were read up to TRACE_COMPLETE. */
uint64_t model_missing_mappings(const struct model *model);
uint64_t model_truncated_stacks(const struct model *model);
/* How the reading of a trace ended. */
struct model_ending {
	enum trace_end how_ended;
	bool is_growing;     /* the capture still runs; only with TRACE_TRUNCATED */
	bool has_end;	     /* an END record was read */
	const char *problem; /* the reader's message; NULL: none */
};
#define MODEL_ENDING_BYTES 8192u
struct model_ending model_ending(const struct model *model);
/* One sentence about a trace read only in part; false if it was read completely. */
bool model_ending_text(const struct model_ending *ending, char text[MODEL_ENDING_BYTES]);
/* How the capture ended: rec_end_name(); without an END record "running" while the capture runs,
 * else "truncated". */
const char *model_ended(const struct model *model);
#define MODEL_NOTE_BYTES 160u
/* The sentence with this index, for export formats with comments: one for each pause, then one
 * about the settle time, then one about --cull, as far as the trace has them. False: there is no
 * such sentence. */
bool model_note(const struct model *model, size_t index, char text[MODEL_NOTE_BYTES]);
#define MODEL_LEFT_BYTES 1024u
/* A sentence without its full stop: how the detach ended. */
void model_left_text(const struct model *model, char text[MODEL_LEFT_BYTES]);
