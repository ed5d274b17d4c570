/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of the trace of a running capture, up to now, with names: a whole trace of its own. Only
 * reads: neither the target nor the capture notices.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

struct snapshot_options {
	pid_t pid;
	uint64_t start_ticks; /* of the process that is recorded */
	const char *trace;    /* the file that the capture writes; hostile contents */
	const char *output;   /* of the copy */
	bool replace;
};

struct snapshot_report {
	uint64_t bytes;	   /* of the copy */
	char problem[240]; /* what is missing, for a person; "": nothing */
};

/*
 * Copies the totals that CONTROL_SNAPSHOT has put, and each event that was recorded before the
 * call. Waits until the capture has written them: usually a second, at most ten (HT_ERR_SYS).
 * HT_ERR_REFUSED: the capture has ended. Other errors as of the trace's reader and of store_create.
 * After an error there is no file. The caller ignores SIGPIPE and SIGXFSZ, and blocks the signals
 * that are to end it early.
 */
HT_MUST_CHECK
struct ht_err *snapshot_write(const struct snapshot_options *options, struct snapshot_report *ret);
