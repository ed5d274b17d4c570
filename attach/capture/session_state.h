/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a capture, for the orchestrator (session.c) and the steps that use several parts of
 * it. A step that uses one part receives that part alone: heapread.c, loads.c, memory.c,
 * records.c, asked.c, change.c, leftpage.c, remains.c.
 */
#pragma once

#include "attach/capture/change.h"
#include "attach/capture/heapread.h"
#include "attach/capture/leftpage.h"
#include "attach/capture/limits.h"
#include "attach/capture/loads.h"
#include "attach/capture/memory.h"
#include "attach/capture/options.h"
#include "attach/capture/outlet.h"
#include "attach/capture/records.h"
#include "attach/capture/remains.h"
#include "attach/capture/report.h"
#include "attach/capture/settle.h"
#include "attach/capture/tap.h"
#include "attach/capture/times.h"
#include "attach/capture/watch.h"
#include "attach/daemon/receiver.h"
#include "attach/plan/survey.h"
#include "attach/process/glance.h"
#include "attach/process/lock.h"
#include "attach/undo/guardian.h"
#include "attach/unwind/publish.h"
#include "attach/v8/names.h"

/* A thread whose interpreted functions have names of their own. */
struct interpreted_thread {
	raddr_t pointer;	 /* its thread pointer; 0: unknown, or none */
	struct same_thread same; /* not set for the first thread */
	raddr_t isolate;	 /* when its generation began */
	uint16_t generation;	 /* in force; 0: none */
};

/* The state of interpreted.c. */
struct interpreted {
	struct publish_interpreter code; /* 0 bytes: they cannot be told apart, or not any more */
	/* The target's first thread, and workers. */
	struct interpreted_thread thread[ABI_SCRIPTS_THREADS];
	uint16_t generation; /* the last that has begun; 0: none */
	bool no_workers;     /* they have used up their share of nodes and generations */
	uint64_t next_ns;    /* when to look for workers */
	uint32_t see_from;   /* the slot where that begins: one look sees some of many threads */
	uint32_t place_from; /* and of workers the one that the last look had no time for */
};

_Static_assert(ABI_SCRIPTS_THREADS == V8_NAMES_THREADS, "each has names");

struct session {
	const struct session_options *options;
	struct session_report *report;
	struct times times;
	uint64_t phase_ns; /* when the present phase began */

	/* The target, as far as it is known. */
	struct survey survey;
	struct entries entries;
	struct publish *publish;
	struct residue *residue; /* the picture before */
	struct v8_names *names;	 /* NULL: the target has no V8 that heaptap knows */
	int32_t frame_function;	 /* v8_layout.frame_function */

	/* The changes of the target, and their undo. */
	struct lock lock;
	struct journal journal;
	struct guardian guardian;
	struct agent_elf elf;
	struct image image;
	struct remote_slack slack;
	bool slack_written;
	struct remote_image remote;
	bool mapped; /* the target has the image */
	struct tap tap;
	struct session_target shown; /* to options->forks */

	/* The trace. */
	struct outlet outlet;
	struct records records;
	struct receiver *receiver;

	/* While the window is open. */
	int signal_fd;
	struct watch *watch;
	struct glance glance;
	struct memory_figures memory;
	struct limits limits;
	struct heapread heapread;
	struct loads loads;
	struct interpreted interpreted;
	struct settle settle;
	unsigned holds;		  /* of threads that were about to exec */
	uint64_t next_seccomp_ns; /* when to look for filters again */

	/* How it ends. */
	struct change change;
	bool is_ending;		   /* the window ends after the last reading of the heap */
	struct ht_err *pump_error; /* the first of the time in which the agent is removed */
	struct leftpage leftpage;
	struct remains remains;
};

/* Says what is being done, to a person who waits. */
HT_PRINTF(2, 3) void session_progress(const struct session *s, const char *fmt, ...);
