/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the trace of a running capture, up to now, and adds names: the copy is a complete trace.
 * Only reads the trace and files of the target: the capture goes on.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

struct snapshot_options {
	pid_t pid;
	uint64_t start_ticks; /* field 22 of the recorded process's stat */
	const char *trace;    /* the file that the capture writes; hostile contents */
	const char *output;   /* path of the copy */
	bool replace;
};

struct snapshot_report {
	uint64_t bytes;	   /* size of the copy */
	char problem[240]; /* what the copy lacks, as a sentence; "": nothing */
};

/*
 * Copies all events from before the call, and the totals that CONTROL_SNAPSHOT made the capture
 * write. Waits until the capture has written them, usually a second; HT_ERR_SYS if no new record
 * comes for ten. HT_ERR_REFUSED: the capture has ended or does not write to a regular file, or
 * SIGINT, SIGTERM or SIGHUP is pending. Other errors are those of the trace reader and of
 * store_create. After an error there is no file. The caller ignores SIGPIPE and SIGXFSZ, and blocks
 * the three signals.
 */
HT_MUST_CHECK
struct ht_err *snapshot_write(const struct snapshot_options *options, struct snapshot_report *ret);
