/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/live/told.h"
#include "format/clock.h"
#include "format/record.h"

/* --- opening --------------------------------------------------------------------------------- */

static int make_in(const char *directory)
{
	char path[PATH_MAX];
	if (directory[0] != '/' || snprintf(path, sizeof(path), "%s/heaptap-top.XXXXXX",
					   directory) >= (int)sizeof(path))
		return -1;
	const int fd = mkostemp(path, O_CLOEXEC);
	/* The kernel frees a file without a name when its last user ends, even if that one is
	 * killed. */
	if (fd >= 0)
		unlink(path);
	return fd;
}

static struct ht_err *make_files(struct feed *feed)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	feed->trace = runtime ? make_in(runtime) : -1;
	if (feed->trace < 0)
		feed->trace = make_in("/tmp");
	if (feed->trace < 0)
		return ht_err_sys(errno, "cannot make a file for the trace in /tmp");
	feed->log = memfd_create("log", MFD_CLOEXEC);
	return feed->log < 0 ? ht_err_sys(errno, "cannot make room for messages") : NULL;
}

static struct ht_err *read_on(void *context, uint64_t most, bool *ret_has_more, uint64_t *ret_read)
{
	struct tail *tail = context;
	struct ht_err *err = tail_read_on(tail, most);
	*ret_has_more = tail->has_more;
	*ret_read = tail->read_bytes;
	return err;
}

struct ht_err *feed_open(
	struct feed *feed, pid_t pid, uint64_t delay_ns, const struct feed_tasks *tasks)
{
	char heaptap[PATH_MAX];
	*feed = (struct feed){.tasks = tasks, .trace = -1, .log = -1, .delay_ns = delay_ns};
	const struct follow_config follow = {&feed->capture, read_on, &feed->tail};
	feed->capture.socket = feed->tail.fd = -1;
	feed->heading.pid = pid;
	struct ht_err *err = capture_find_program(heaptap);
	HT_THEN(err, make_files(feed));
	if (err)
		return err;
	const struct capture_start start = {heaptap, feed->trace, feed->log, FEED_TRACE_BYTES_MAX};
	err = capture_open(&feed->capture, pid, &start);
	HT_THEN(err, tail_open(&feed->tail, feed->capture.trace, feed->capture.started));
	follow_init(&feed->follow, &follow);
	feed->due_ns = clock_mono_ns();
	return err;
}

/* --- the capture ----------------------------------------------------------------------------- */

static void tell(struct feed *feed, const char *text)
{
	snprintf(feed->message, sizeof(feed->message), "%s", text);
}

static void paused(void *context, const struct follow *follow, const char *problem)
{
	(void)follow;
	tell(context, problem ? problem : "Paused: no new allocation is recorded; p resumes");
}

static void resumed(void *context, const struct follow *follow, const char *problem)
{
	(void)follow;
	tell(context, problem ? problem : "Recording again");
}

static void marked(void *context, const struct follow *follow, const char *problem)
{
	(void)follow;
	tell(context, problem ? problem : "The mark is in the trace");
}

static void ask(struct feed *feed, const struct control_request *request,
	void (*answered)(void *context, const struct follow *follow, const char *problem))
{
	const struct follow_asked asked = {answered, feed};
	if (!follow_ask(&feed->follow, request, &asked))
		tell(feed, "The capture has ended or does not answer");
}

void feed_pause(struct feed *feed, bool pause)
{
	const struct control_request request = {.verb = pause ? CONTROL_PAUSE : CONTROL_RESUME};
	ask(feed, &request, pause ? paused : resumed);
}

void feed_mark(struct feed *feed, const char *text)
{
	struct control_request request = {.verb = CONTROL_MARK};
	request.text_length = strnlen(text, sizeof(request.text));
	memcpy(request.text, text, request.text_length);
	ask(feed, &request, marked);
}

static void look_at_capture(struct feed *feed)
{
	const struct follow *follow = &feed->follow;
	const bool has_ended = !follow->is_steered || follow->last.phase == CONTROL_ENDED;
	if (follow->last.phase != CONTROL_ENDED)
		feed->heading.last = follow->last;
	/* Read the last part that the capture wrote. */
	if (has_ended && !feed->heading.has_ended)
		feed->follow.has_more = true;
	feed->heading.has_ended = has_ended;
}

/* --- jobs ------------------------------------------------------------------------------------ */

static struct ht_err *run_job(void *context)
{
	const struct feed *feed = context;
	const struct feed_tasks *tasks = feed->tasks;
	/* This child must not run ncurses' handlers, which restore the parent's screen. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGTSTP, SIG_DFL);
	if (feed->is_saving)
		return tasks->save(tasks->context, feed->tail.analysis, feed->save_path);
	return tasks->snapshot(tasks->context, feed->tail.analysis);
}

static void end_save(struct feed *feed, const struct ht_err *err)
{
	snprintf(feed->message, sizeof(feed->message), "%s%s",
		err ? err->message : "Written: ", err ? "" : feed->save_path);
	free(feed->save_path);
	feed->save_path = NULL;
}

static void refuse_save(struct feed *feed)
{
	free(feed->save_path);
	feed->save_path = NULL;
	tell(feed, "There is nothing to write: the capture recorded nothing");
}

/* Whether to wait for more data before a snapshot. A target may allocate faster than its trace is
 * read: then the table is late instead of missing. */
static bool is_early(const struct feed *feed, uint64_t now)
{
	return feed->due_ns > now || (feed->follow.has_more && feed->due_ns + feed->delay_ns > now);
}

static void start_job(struct feed *feed)
{
	const struct job_task task = {.run = run_job, .context = feed};
	const uint64_t now = clock_mono_ns();
	if (feed->job.pid || !feed->tail.analysis)
		return;
	feed->is_saving = feed->save_path;
	if (!feed->is_saving && feed->is_complete)
		return;
	feed->is_last = feed->heading.has_ended && !feed->follow.has_more;
	if (!feed->is_saving && !feed->is_last && is_early(feed, now))
		return;
	struct ht_err *err = job_start(&feed->job, &task);
	if (err)
		feed->job.pid = 0;
	/* The next turn tries to make a snapshot again. */
	if (err && feed->is_saving)
		end_save(feed, err);
	ht_err_free(err);
	feed->job_ns = now;
}

/* The next snapshot begins after the interval. If the last one took longer to make than the
 * interval, the next one waits as long again, because the target needs the processors too. */
static void set_due(struct feed *feed)
{
	const uint64_t now = clock_mono_ns(), took = now - feed->job_ns;
	feed->due_ns += feed->delay_ns;
	if (feed->due_ns < now)
		feed->due_ns = now;
	if (took > feed->delay_ns && feed->due_ns < now + took)
		feed->due_ns = now + took;
}

static bool end_snapshot(struct feed *feed, struct ht_err *err, int output)
{
	struct snapshot *snapshot = NULL;
	HT_THEN(err, snapshot_read(output, &snapshot));
	set_due(feed);
	feed->is_complete = feed->is_last;
	/* A trace without events has no snapshot yet: the next one may succeed. */
	if (err && err->code == HT_ERR_REFUSED && feed->now)
		snprintf(feed->message, sizeof(feed->message), "%s", err->message);
	ht_err_free(err);
	if (!snapshot)
		return feed->is_complete;
	snapshot_follow(&feed->before, &feed->now, snapshot);
	return true;
}

static bool end_job(struct feed *feed)
{
	int output;
	bool is_new = false;
	struct ht_err *err = job_finish(&feed->job, &output);
	if (feed->is_saving) {
		end_save(feed, err);
		ht_err_free(err);
	} else {
		is_new = end_snapshot(feed, err, output);
	}
	if (output >= 0)
		close(output);
	return is_new;
}

void feed_save(struct feed *feed, const char *path)
{
	if (feed->save_path) {
		snprintf(feed->message, sizeof(feed->message), "%s is still being written",
			feed->save_path);
		return;
	}
	if (feed->is_complete && !feed->tail.analysis) {
		refuse_save(feed);
		return;
	}
	feed->save_path = strdup(path);
	if (feed->save_path)
		snprintf(feed->message, sizeof(feed->message), "Writing %s ...", path);
	else
		tell(feed, "No memory for the name of the page");
}

/* --- turns ----------------------------------------------------------------------------------- */

int feed_poll(const struct feed *feed, struct pollfd polled[FEED_POLLED])
{
	const uint64_t now = clock_mono_ns();
	const int follow_ms = follow_poll(&feed->follow, &polled[0]);
	polled[1] = (struct pollfd){feed->job.pid ? feed->job.pipe : -1, POLLIN, 0};
	if (feed->job.pid || feed->is_complete || !feed->tail.analysis)
		return follow_ms;
	const uint64_t due_ms = feed->due_ns > now ? (feed->due_ns - now) / CLOCK_NS_PER_MS + 1 : 0;
	return due_ms < (uint64_t)follow_ms ? (int)due_ms : follow_ms;
}

bool feed_turn(struct feed *feed, const struct pollfd polled[FEED_POLLED])
{
	bool is_new = false;
	(void)follow_turn(&feed->follow, &polled[0]);
	if (polled[1].revents || (feed->job.pid && feed->job.deadline_ns <= clock_mono_ns()))
		is_new = end_job(feed);
	look_at_capture(feed);
	start_job(feed);
	/* A capture that ended before its trace began has no snapshot. */
	if (feed->heading.has_ended && !feed->tail.analysis && !feed->is_complete) {
		feed->is_complete = true;
		if (feed->save_path)
			refuse_save(feed);
		return true;
	}
	return is_new;
}

/* --- the end --------------------------------------------------------------------------------- */

static bool has_target_ended(const struct feed *feed)
{
	return feed->now && feed->now->figures.has_end &&
	       (feed->now->figures.end_reason == REC_END_TARGET_EXIT ||
		       feed->now->figures.end_reason == REC_END_TARGET_EXEC);
}

struct ht_err *feed_close(struct feed *feed)
{
	int output = -1;
	if (feed->job.pid) {
		feed->job.deadline_ns = 0;
		ht_err_free(job_finish(&feed->job, &output));
	}
	if (output >= 0)
		close(output);
	struct ht_err *err =
		told_error(feed->log, capture_close(&feed->capture), "the capture has ended");
	if (has_target_ended(feed) && (!err || err->code == HT_ERR_TARGET_GONE)) {
		ht_err_free(err);
		err = ht_err_new(HT_ERR_TARGET_GONE, "the capture has ended: %s",
			rec_end_text(feed->now->figures.end_reason));
	}
	tail_close(&feed->tail);
	if (feed->trace >= 0)
		close(feed->trace);
	if (feed->log >= 0)
		close(feed->log);
	snapshot_destroy(feed->now);
	snapshot_destroy(feed->before);
	free(feed->save_path);
	return err;
}
