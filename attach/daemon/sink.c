/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "attach/daemon/output.h"

#define RESERVE_DEFAULT_BYTES (64ull << 20)
#define BLOCK_AGE_MAX_NS      1000000000ull
#define STALL_MS	      5000 /* how long a pipe may take nothing */

struct sink {
	struct output output;
	struct trace_writer *writer;
	uint64_t reserve_bytes;
	enum sink_state state;
	char *problem;
	bool has_records, is_finished;
	uint64_t seen_bytes;	 /* trace_writer_bytes() at the last look */
	uint64_t block_since_ns; /* when the first of the waiting records came; 0: none waits */
	uint64_t waiting_events; /* in the writer, not yet in the file */
	uint64_t dropped_events; /* never given to the writer */
	bool is_stuck;		 /* the last attempt to write failed */
};

typedef struct ht_err *writer_step(struct trace_writer *writer);

static uint64_t clock_mono_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* UINT64_MAX: without limit or not known. */
static uint64_t free_bytes(const struct sink *sink)
{
	struct statvfs fs;
	if (!sink->output.is_regular || fstatvfs(sink->output.fd, &fs) || !fs.f_blocks)
		return UINT64_MAX;
	uint64_t bytes;
	return __builtin_mul_overflow(fs.f_bavail, fs.f_frsize, &bytes) ? UINT64_MAX : bytes;
}

static struct ht_err *check_space(const struct sink *sink)
{
	uint64_t left = free_bytes(sink);
	if (left >= sink->reserve_bytes)
		return NULL;
	return ht_err_new(HT_ERR_USAGE,
		"%s: %llu MiB are free on its file system and %llu MiB are kept free; "
		"make room or name another place with -o",
		sink->output.path, (unsigned long long)(left >> 20),
		(unsigned long long)(sink->reserve_bytes >> 20));
}

struct ht_err *sink_create(const struct sink_options *options, struct sink **ret)
{
	struct sink *sink = calloc(1, sizeof(*sink));
	if (!sink)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the output");
	sink->reserve_bytes =
		options->reserve_bytes ? options->reserve_bytes : RESERVE_DEFAULT_BYTES;
	struct ht_err *err = output_open(options->path, options->replace, &sink->output);
	if (err) {
		free(sink);
		return err;
	}
	err = check_space(sink);
	if (!err) {
		err = trace_writer_create(sink->output.fd, &sink->writer);
		err = ht_err_wrap(err, "%s", sink->output.path);
	}
	if (err) {
		sink_destroy(sink);
		return err;
	}
	sink->seen_bytes = trace_writer_bytes(sink->writer);
	*ret = sink;
	return NULL;
}

void sink_destroy(struct sink *sink)
{
	if (!sink)
		return;
	if (!sink->has_records)
		output_discard(&sink->output);
	else if (!sink->is_finished)
		ht_err_free(output_publish(&sink->output));
	trace_writer_destroy(sink->writer);
	output_deinit(&sink->output);
	free(sink->problem);
	free(sink);
}

static void set_problem(struct sink *sink, enum sink_state state, const char *text)
{
	if (sink->state >= state)
		return;
	sink->state = state;
	free(sink->problem);
	if (asprintf(&sink->problem, "%s: %s", sink->output.path, text) < 0)
		sink->problem = NULL;
}

/* A pipe that is full is waited for, but not for ever. True: try the call again. */
static bool is_writable_again(const struct sink *sink, struct ht_err **err)
{
	if (!*err || (*err)->code != HT_ERR_SYS || (*err)->sys != EAGAIN)
		return false;
	struct pollfd pipe = {.fd = sink->output.fd, .events = POLLOUT};
	int ready;
	do
		ready = poll(&pipe, 1, STALL_MS);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		return false;
	ht_err_free(*err);
	*err = NULL;
	return true;
}

/* Turns an error of the output into a state; our own errors pass through. */
static struct ht_err *note_error(struct sink *sink, struct ht_err *err)
{
	if (!err || err->code != HT_ERR_SYS)
		return err;
	if (err->sys == ENOSPC || err->sys == EDQUOT || err->sys == EFBIG)
		set_problem(sink, SINK_FULL, err->message);
	else if (err->sys == EAGAIN)
		set_problem(sink, SINK_BROKEN, "its reader took nothing for 5 s");
	else
		set_problem(sink, SINK_BROKEN, err->message);
	ht_err_free(err);
	return NULL;
}

/* After a call that may have written: was a block among it? */
static bool note_written(struct sink *sink)
{
	uint64_t bytes = trace_writer_bytes(sink->writer);
	if (bytes == sink->seen_bytes)
		return false;
	sink->seen_bytes = bytes;
	struct ht_err *err = check_space(sink);
	if (err)
		set_problem(sink, SINK_FULL, "its file system is almost full");
	ht_err_free(err);
	return true;
}

static struct ht_err *write_waiting(struct sink *sink, writer_step *step)
{
	struct ht_err *err;
	do
		err = step(sink->writer);
	while (is_writable_again(sink, &err));
	sink->is_stuck = err != NULL;
	if (!err) {
		sink->waiting_events = 0;
		sink->block_since_ns = 0;
	}
	note_written(sink);
	return note_error(sink, err);
}

/* Once the output is full, what says why the trace ends is still worth the reserve. A later SYNC
 * would claim that the dropped events are there. */
static bool is_accepted(const struct sink *sink, enum rec_kind kind)
{
	if (sink->state == SINK_FULL)
		return kind != REC_EVENTS && kind != REC_NODES && kind != REC_SYNC;
	return sink->state == SINK_OK;
}

struct ht_err *sink_put(struct sink *sink, const struct rec *rec, uint64_t events)
{
	struct ht_err *err;
	if (!is_accepted(sink, rec->kind)) {
		sink->dropped_events += events;
		return NULL;
	}
	do
		err = trace_writer_put(sink->writer, rec);
	while (is_writable_again(sink, &err));
	sink->is_stuck = err != NULL;
	if (err) {
		sink->dropped_events += events;
		return note_error(sink, err);
	}
	sink->has_records = true;
	if (note_written(sink)) {
		sink->waiting_events = 0;
		sink->block_since_ns = 0;
	}
	sink->waiting_events += events;
	if (!sink->block_since_ns)
		sink->block_since_ns = clock_mono_ns();
	return NULL;
}

struct ht_err *sink_tick(struct sink *sink, uint64_t now_mono_ns)
{
	bool is_old =
		sink->block_since_ns && now_mono_ns >= sink->block_since_ns + BLOCK_AGE_MAX_NS;
	return is_old && sink->state == SINK_OK ? write_waiting(sink, trace_writer_flush) : NULL;
}

struct ht_err *sink_flush(struct sink *sink)
{
	return sink->state == SINK_BROKEN ? NULL : write_waiting(sink, trace_writer_flush);
}

struct ht_err *sink_finish(struct sink *sink)
{
	struct ht_err *err = NULL;
	if (sink->state != SINK_BROKEN)
		err = write_waiting(sink, trace_writer_finish);
	if (!err)
		err = note_error(sink, output_publish(&sink->output));
	sink->is_finished = !err;
	return err;
}

enum sink_state sink_state(const struct sink *sink)
{
	return sink->state;
}

const char *sink_problem(const struct sink *sink)
{
	return sink->problem;
}

uint64_t sink_dropped_events(const struct sink *sink)
{
	return sink->dropped_events + (sink->is_stuck ? sink->waiting_events : 0);
}

uint64_t sink_bytes(const struct sink *sink)
{
	return trace_writer_bytes(sink->writer);
}

const char *sink_path(const struct sink *sink)
{
	return sink->output.path;
}

int sink_reopen(const struct sink *sink)
{
	char path[64];
	if (!sink->output.is_regular)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", sink->output.fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}
