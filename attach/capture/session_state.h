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
#include "attach/capture/scripts.h"
#include "attach/capture/overhead.h"
#include "attach/capture/pausing.h"
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
	struct scripts scripts;
	struct settle settle;
	struct pausing pausing;
	struct overhead overhead;
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
