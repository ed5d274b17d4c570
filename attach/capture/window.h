/* SPDX-License-Identifier: Apache-2.0
 *
 * The window: the time between the first hooked and the last restored slot. heaptap receives events
 * and watches the target until something ends the window.
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
	const struct session_target *shown; /* the argument of the functions of options->forks */
	int signal_fd, guardian_fd, memfd;
};

struct window {
	struct window_use use;
	struct settle settle;	  /* the caller sets wanted_ns before the run */
	struct pausing pausing;	  /* the caller sets the first three fields before the run */
	struct overhead overhead; /* the caller sets limit_ppm before the run */
	struct glance glance;
	struct memory_figures memory;
	struct limits limits;
	struct heapread heapread;
	bool is_ending;		   /* the window ends after the last reading of the heap */
	struct ht_err *heap_error; /* that reading's error, owned: the window still ends normally */
	unsigned holds;		   /* how many times a thread was held before an exec */
	uint64_t next_seccomp_ns;  /* when to look for seccomp filters again */
};

/* From now on the agent makes no system call; a call that has begun ends normally. */
void window_forbid_calls(struct image *image);

/* Runs the window. report->ended says why it ended, change.is_gone whether the target is gone. Call
 * window_close also after an error. */
HT_MUST_CHECK
struct ht_err *window_run(struct window *window, const struct window_use *use);
/* Sets the length of the window, of its settle time and of its pauses, and the overhead; call it
 * after times_end. */
void window_report(
	const struct window *window, const struct times *times, struct session_report *report);
void window_close(struct window *window);
