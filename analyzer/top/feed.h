/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of the table. feed joins or starts a capture, reads on in its trace, and makes a
 * snapshot at intervals. A copy of this process makes each snapshot, so that nothing changes here;
 * one at a time.
 */
#pragma once

#include "analyzer/live/follow.h"
#include "analyzer/live/job.h"
#include "analyzer/live/tail.h"
#include "analyzer/top/heading.h"

#define FEED_POLLED	   2u
#define FEED_MESSAGE_BYTES 1024u

/* Run in a process of their own, which ends afterwards. */
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
	int trace, log;	 /* the private trace of a capture that was started, and what it printed */
	struct job job;	 /* pid 0: none */
	bool is_saving;	 /* the job writes a page */
	char *save_path; /* NULL: nothing is to be saved */
	struct snapshot *now, *before;
	uint64_t delay_ns, due_ns, job_ns;
	struct heading heading;
	bool is_complete;		  /* the capture has ended, and `now` has all of it */
	bool is_last;			  /* the job makes that snapshot */
	char message[FEED_MESSAGE_BYTES]; /* how the last request went; "": nothing to tell */
};

/* Joins the capture of `pid`, or starts one that writes to a private file without a name, which is
 * never larger on disk than FEED_TRACE_BYTES_MAX. `tasks` are borrowed. feed_close also after an
 * error. */
#define FEED_TRACE_BYTES_MAX (1ull << 30)
HT_MUST_CHECK
struct ht_err *feed_open(
	struct feed *feed, pid_t pid, uint64_t delay_ns, const struct feed_tasks *tasks);
/* Fills in what feed_turn waits for, and returns for how many ms at most. */
int feed_poll(const struct feed *feed, struct pollfd polled[FEED_POLLED]);
/* True: there is a new snapshot, or the last one of the capture. */
bool feed_turn(struct feed *feed, const struct pollfd polled[FEED_POLLED]);
/* Requests to the capture; the outcome becomes a message. */
void feed_pause(struct feed *feed, bool pause);
void feed_mark(struct feed *feed, const char *text);
/* Writes a page to the new file `path` as soon as no other job runs. */
void feed_save(struct feed *feed, const char *path);
/* Ends what was started, and waits until the target is left. Returns what a capture that was
 * started says of its end, with its exit status as a code; HT_ERR_TARGET_GONE where the target
 * ended. */
HT_MUST_CHECK
struct ht_err *feed_close(struct feed *feed);
