/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of the table: joins or starts a capture, reads its growing trace, and makes a snapshot
 * at intervals. A fork of this process makes each snapshot, one at a time, so that the analysis
 * here stays unfinished and can go on.
 */
#pragma once

#include "analyzer/live/follow.h"
#include "analyzer/live/job.h"
#include "analyzer/live/tail.h"
#include "analyzer/top/heading.h"

#define FEED_POLLED	   2u
#define FEED_MESSAGE_BYTES 1024u

/* Functions that run in a forked process, which ends afterwards. */
struct feed_tasks {
	/* Completes the analysis and writes its snapshot to standard output. */
	struct ht_err *(*snapshot)(void *context, struct analysis *analysis);
	/* Completes the analysis and writes it as a page to the new file `path`. */
	struct ht_err *(*save)(void *context, struct analysis *analysis, const char *path);
	void *context;
};

struct feed {
	const struct feed_tasks *tasks;
	struct capture capture;
	struct tail tail;
	struct follow follow;
	int trace, log;	 /* descriptors for a capture that feed starts: its private trace, and its
			    messages */
	struct job job;	 /* pid 0: none */
	bool is_saving;	 /* the job writes a page */
	char *save_path; /* path of a requested page; NULL: none */
	struct snapshot *now, *before;
	/* time between two snapshots; when the next one is due, and when the last job began
	 * (CLOCK_MONOTONIC) */
	uint64_t delay_ns, due_ns, job_ns;
	struct heading heading;
	bool is_complete; /* the capture has ended, and `now` has all of it (NULL: it recorded
			     nothing) */
	bool is_last;	  /* the running job makes the snapshot of the complete trace */
	char message[FEED_MESSAGE_BYTES]; /* outcome of the last request; "": none */
};

/* Joins the capture of `pid`, or starts one that writes to a private file without a name, and that
 * ends when the file takes more than FEED_TRACE_BYTES_MAX of the disk. `delay_ns`: time between two
 * snapshots. `tasks` are borrowed. Call feed_close also after an error. */
#define FEED_TRACE_BYTES_MAX (1ull << 30)
HT_MUST_CHECK
struct ht_err *feed_open(
	struct feed *feed, pid_t pid, uint64_t delay_ns, const struct feed_tasks *tasks);
/* Fills in the descriptors that feed_turn needs; returns the longest time to poll in ms. */
int feed_poll(const struct feed *feed, struct pollfd polled[FEED_POLLED]);
/* Does the work that is due. True: there is a new snapshot, or the capture has ended and no further
 * one will come. */
bool feed_turn(struct feed *feed, const struct pollfd polled[FEED_POLLED]);
/* Requests to the capture; the outcome becomes a message. */
void feed_pause(struct feed *feed, bool pause);
void feed_mark(struct feed *feed, const char *text);
/* Writes a page to the new file `path` as soon as no other job runs. */
void feed_save(struct feed *feed, const char *path);
/* Ends a capture that feed started and waits for its detach. Returns that capture's error, whose
 * code follows its exit status; HT_ERR_TARGET_GONE if the target ended. */
HT_MUST_CHECK
struct ht_err *feed_close(struct feed *feed);
