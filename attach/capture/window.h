/* SPDX-License-Identifier: Apache-2.0
 *
 * The time between the first tapped and the last restored slot: events are received, the target is
 * watched, until something ends it.
 */
#pragma once

#include "attach/trace/heapread.h"
#include "attach/steer/limits.h"
#include "attach/capture/loads.h"
#include "attach/trace/memory.h"
#include "attach/steer/overhead.h"
#include "attach/steer/pausing.h"
#include "attach/trace/records.h"
#include "attach/capture/report.h"
#include "attach/trace/scripts.h"
#include "attach/steer/settle.h"
#include "attach/capture/tap.h"
#include "attach/steer/times.h"
#include "attach/capture/watch.h"
#include "attach/process/glance.h"

/* The parts of a capture that the window uses; all borrowed for the run. */
struct window_use {
	const struct session_options *options;
	struct session_report *report;
	const struct times *times;
	struct survey *survey;
	const struct entries *entries;
	struct publish *publish;
	struct image *image;
	const struct agent_elf *elf;
	struct tap *tap;
	struct records *records;
	struct scripts *scripts;
	struct loads *loads;
	struct receiver *receiver;
	struct watch *watch;
	struct sink *sink;
	struct change *change;
	const struct session_target *shown; /* to options->forks */
	int signal_fd, guardian_fd, memfd;
};

struct window {
	struct window_use use;
	struct settle settle;	  /* wanted_ns is set before the run */
	struct pausing pausing;	  /* its first three fields likewise */
	struct overhead overhead; /* limit_ppm likewise */
	struct glance glance;
	struct memory_figures memory;
	struct limits limits;
	struct heapread heapread;
	bool is_ending;		   /* it ends after the last reading of the heap */
	struct ht_err *heap_error; /* of that reading, owned: the window ends as wanted */
	unsigned holds;		   /* of threads that were about to exec */
	uint64_t next_seccomp_ns;  /* when to look for filters again */
};

/* The agent makes no system call from now on. */
void window_forbid_calls(struct image *image);

/* Runs the window; report->ended says why it ended, change.is_gone whether there is a target left.
 * window_close also after an error. */
HT_MUST_CHECK
struct ht_err *window_run(struct window *window, const struct window_use *use);
/* Sets how long the window and its pauses were; after times_end. */
void window_report(
	const struct window *window, const struct times *times, struct session_report *report);
void window_close(struct window *window);
