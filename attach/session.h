/* SPDX-License-Identifier: Apache-2.0
 *
 * One capture of one process, from looking at it to the proof that nothing is left: the steps of
 * attach/DESIGN.md, in order.
 */
#pragma once

#include "attach/daemon/sink.h"
#include "attach/inject/detach.h"
#include "attach/inject/residue.h"
#include "format/record.h"

struct session_options {
	pid_t pid;
	const char *output; /* path, or "-" */
	bool replace;
	uint64_t duration_ns; /* 0: until a signal */
	bool lossless;
	bool full_unwind; /* never splice stored stacks: the oracle */
	bool symbolize;	  /* store names at the end of the window */
	uint64_t wait_ns; /* longest delay of a thread while the daemon stalls */
	uint64_t detach_deadline_ns;
	void (*progress)(const char *line); /* NULL: quiet */
};

struct session_report {
	enum rec_end_reason ended;
	uint64_t attach_ns;  /* from the start to the last tapped slot */
	uint64_t capture_ns; /* first tapped to last restored slot */
	uint64_t detach_ns;
	uint64_t stop_ns; /* longest time any thread was held */
	uint64_t events, dropped_events, nested_events, truncated_stacks;
	uint64_t slots_tapped, slots_restored, slots_foreign;
	uint64_t untapped_modules;
	uint64_t threads, trace_bytes;
	bool detached; /* detach was attempted: level and verify are set */
	enum detach_level level;
	char why[200]; /* for level 2 and 3 */
	struct residue_report verify;
	enum sink_state sink_state;
	char sink_problem[200];
	char symbols_problem[200];
	char comm[64];
};

/* Runs a capture. An error means that nothing was recorded and nothing is left in the target (or,
 * for HT_ERR_INCOMPLETE, says what is). Signals SIGINT, SIGTERM and SIGHUP end the window: they
 * must be blocked by the caller, and are taken with signalfd. */
HT_MUST_CHECK
struct ht_err *session_run(const struct session_options *options, struct session_report *ret);
