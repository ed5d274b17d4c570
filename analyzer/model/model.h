/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace, read once: what it says about target, capture, modules, threads and stacks is kept; its
 * events pass by as facts. Memory is bounded by live blocks and distinct stacks. Knows no names of
 * functions: symbol records are handed on.
 */
#pragma once

#include "analyzer/model/modules.h"
#include "analyzer/model/nodes.h"
#include "analyzer/model/replay.h"
#include "analyzer/model/scripts.h"
#include "analyzer/model/streams.h"
#include "analyzer/model/strings.h"
#include "analyzer/model/threads.h"
#include "analyzer/model/timebase.h"
#include "format/memory.h"
#include "format/reader.h"

#define MODEL_MARKS_MAX 4096u

struct model_mark {
	uint64_t time_ns; /* since the window's start */
	const char *text;
};

#define MODEL_PAUSES_MAX 4096u

/* While nothing new was recorded. In order, and none begins before the one before has ended. */
struct model_pause {
	uint64_t begin_ns, end_ns; /* since the window's start; that one lasts until here, or until
				    * the end of what was read */
};

/* What one allocator held, as in FORMAT.md. */
struct model_account {
	const char *allocator, *reason;
	bool known;
	uint64_t held_bytes, off_bytes, system_bytes, arenas, header_bytes;
};

/* What MEMORY and RSS records say: by kind the first and the last number, and how often it was
 * known. */
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
	struct scripts scripts;
	struct threads threads;
	struct timebase timebase;

	bool has_target, has_capture, has_end;
	struct rec_target target; /* numbers only; the strings are below */
	const char *comm, *exe, *kernel, *heaptap_version;
	struct rec_capture capture;
	struct rec_end end;
	uint64_t duration_ns; /* to the end record, else to the last clock pair */
	uint64_t counter[REC_COUNTER_COUNT];
	struct model_memory memory;
	uint64_t rss_max_bytes;
	struct model_mark *mark;
	size_t mark_count, mark_capacity;
	bool has_left; /* the trace says how the process was left */
	enum rec_left_result left;
	uint64_t left_checks;
	const char *left_why;	   /* NULL: no reason is given */
	struct model_pause *pause; /* the first ones */
	size_t pause_count, pause_capacity;
	struct model_heap *heap; /* the first ones */
	size_t heap_count, heap_capacity;

	uint64_t limit_bytes;	  /* set by the caller: the file ends there; 0: where it ends */
	uint64_t seen_bytes;	  /* of the file: as a limit it makes a second model the same */
	enum trace_end how_ended; /* never TRACE_MORE */
	bool is_growing;	  /* TRACE_TRUNCATED, because the capture still runs */
	const char *problem;	  /* why the file ended early, or NULL */
	bool has_events;	  /* they were read: `damage` and `counts` are valid */
	struct streams_damage damage;
	struct replay_counts counts;
};

/* What passes by while a trace is read. Any function may be NULL. */
struct model_observer {
	struct replay_observer replay; /* replay.context is the context of all */
	/* time_ns since the window's start */
	struct ht_err *(*memory)(void *context, uint64_t time_ns, const struct memory *sample);
	struct ht_err *(*symbol)(void *context, const struct rec_symbol *symbol);
	/* What was mapped before the window. */
	struct ht_err *(*mapped_before)(void *context, const struct rec_range *range);
	/* All events from before the reading of that heap began, or ended, have passed. */
	struct ht_err *(*heap)(void *context, size_t index, bool ended);
};

/*
 * Reads the trace on `fd` (borrowed, read from where it stands) into `model`, which is zero-
 * initialised but for limit_bytes, and calls the observer; while its functions run, the tables of
 * `model` are valid. A cut or damaged file is no error: what is there is read, and `how_ended`
 * tells; but HT_ERR_FORMAT where no record can be read. Without replay.allocated events are not
 * decoded at all.
 */
HT_MUST_CHECK
struct ht_err *model_load(
	struct model *model, int fd, const char *name, const struct model_observer *observer);
void model_deinit(struct model *model);

/* The same step by step, for a trace that grows; its file is seekable. `model`, `name` and the
 * context of the observer must last as long; the rest is copied. */
struct model_reading;
HT_MUST_CHECK
struct ht_err *model_reading_create(struct model *model, int fd, const char *name,
	const struct model_observer *observer, struct model_reading **ret);
/* Reads what has been written by now, at most about `bytes` of it; model->how_ended is TRACE_MORE
 * where there is more. */
HT_MUST_CHECK
struct ht_err *model_reading_continue(struct model_reading *reading, uint64_t bytes);
/* What waits for more passes by, as at the end of a trace: no more can be read. */
HT_MUST_CHECK
struct ht_err *model_reading_finish(struct model_reading *reading);
void model_reading_destroy(struct model_reading *reading);

/* Was every allocation of the window to be recorded? Not in a sample, nor with a pause: sums of
 * events do not explain how memory grew then. */
static inline bool model_is_exact(const struct model *model)
{
	return !model->capture.sample_bytes && !model->pause_count;
}
/* Events that were recorded, were not counted as lost, and are not in the trace: damage. */
uint64_t model_missing_events(const struct model *model);
/* All events that the target made and the trace does not hold, as far as was counted. */
uint64_t model_dropped_events(const struct model *model);
/* Events of mappings that were recorded and are not in the trace, for whatever reason. */
uint64_t model_missing_mappings(const struct model *model);
uint64_t model_truncated_stacks(const struct model *model);
/* How much of a trace was read. */
struct model_ending {
	enum trace_end how_ended;
	bool is_growing;     /* its capture still runs; only with TRACE_TRUNCATED */
	bool has_end;	     /* an END record was read */
	const char *problem; /* what the reader says; NULL: nothing */
};
#define MODEL_ENDING_BYTES 8192u
struct model_ending model_ending(const struct model *model);
/* One sentence on a trace of which a part was read; false where it was read as a whole. */
bool model_ending_text(const struct model_ending *ending, char text[MODEL_ENDING_BYTES]);
/* A word for how the capture ended: "duration", "signal", ...; without an end record
 * "running" while the capture runs, else "truncated". */
const char *model_ended(const struct model *model);
#define MODEL_LEFT_BYTES 1024u
/* A sentence without its full stop: how heaptap left the process. */
void model_left_text(const struct model *model, char text[MODEL_LEFT_BYTES]);
