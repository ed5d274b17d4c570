/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that answers one request: a fork of this program (serve or top), with the traces that
 * the program has read. So an answer cannot change the program, and its time and memory are
 * limited. The answer is the standard output of the process.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

#define JOB_SECONDS_MAX 60u	     /* limit of elapsed time and of CPU time */
#define JOB_BYTES_MAX	(4ull << 30) /* limit of memory beyond that of the parent */
#define JOB_OUTPUT_MAX	(1ull << 30)
#define JOB_KEPT_MAX	64u

struct job {
	pid_t pid;
	int pipe;	      /* readable when the process ends: poll it, then call job_finish */
	int output;	      /* a memfd with the process's standard output */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
};

struct job_task {
	/* Runs in the new process. */
	struct ht_err *(*run)(void *context);
	void *context;
	const int *kept;   /* descriptors that stay open in the process */
	size_t kept_count; /* at most JOB_KEPT_MAX */
};

/* Starts the process. After an error there is none, and job_finish must not be called. */
HT_MUST_CHECK
struct ht_err *job_start(struct job *job, const struct job_task *task);
/* Waits for the process, which it kills if the deadline has passed, and returns its error.
 * `*ret_output`: a file with its output, which the caller closes; -1 with an error. HT_ERR_REFUSED:
 * the process ended without an error message, for example because it exceeded a limit. */
HT_MUST_CHECK
struct ht_err *job_finish(struct job *job, int *ret_output);
