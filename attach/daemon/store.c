/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "format/clock.h"
#include "attach/daemon/output.h"

#define BLOCK_AGE_MAX_NS 1000000000ull
#define STALL_MS	 5000 /* how long a pipe may take nothing */

struct store {
	struct output output;
	struct trace_writer *writer;
	uint64_t reserve_bytes;
	uint64_t *progress;
	enum store_state state;
	char *problem;
	bool has_records, is_finished;
	uint64_t seen_bytes;	 /* trace_writer_bytes() at the last look */
	uint64_t block_since_ns; /* when the first of the waiting records came; 0: none waits */
	uint64_t given_events;	 /* to the writer */
	uint64_t waiting_events; /* of these, not yet in the file */
	uint64_t dropped_events; /* never given to the writer */
	bool is_stuck;		 /* the last attempt to write failed */
};

typedef struct ht_err *writer_step(struct trace_writer *writer);

/* UINT64_MAX: without limit or not known. */
static uint64_t free_bytes(const struct store *store)
{
	struct statvfs fs;
	if (!store->output.is_regular || fstatvfs(store->output.fd, &fs) || !fs.f_blocks)
		return UINT64_MAX;
	uint64_t bytes;
	return __builtin_mul_overflow(fs.f_bavail, fs.f_frsize, &bytes) ? UINT64_MAX : bytes;
}

static struct ht_err *check_space(const struct store *store)
{
	uint64_t left = free_bytes(store);
	if (left >= store->reserve_bytes)
		return NULL;
	return ht_err_new(HT_ERR_USAGE,
		"%s: its file system has %llu MiB free, and heaptap keeps %llu MiB free; make room "
		"or write to another place with -o",
		store->output.path, (unsigned long long)(left >> 20),
		(unsigned long long)(store->reserve_bytes >> 20));
}

struct ht_err *store_create(const struct store_options *options, struct store **ret)
{
	struct store *store = calloc(1, sizeof(*store));
	if (!store)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the output");
	store->reserve_bytes =
		options->reserve_bytes ? options->reserve_bytes : STORE_RESERVE_BYTES;
	store->progress = options->progress;
	struct ht_err *err = output_open(options->path, options->replace, &store->output);
	if (err) {
		free(store);
		return err;
	}
	err = check_space(store);
	HT_THEN(err, ht_err_wrap(trace_writer_create(store->output.fd, &store->writer), "%s",
			     store->output.path));
	if (err) {
		store_destroy(store);
		return err;
	}
	store->seen_bytes = trace_writer_bytes(store->writer);
	*ret = store;
	return NULL;
}

void store_destroy(struct store *store)
{
	if (!store)
		return;
	if (!store->has_records)
		output_discard(&store->output);
	else if (!store->is_finished)
		ht_err_free(output_publish(&store->output));
	trace_writer_destroy(store->writer);
	output_deinit(&store->output);
	free(store->problem);
	free(store);
}

void store_discard(struct store *store)
{
	store->has_records = false;
}

static void set_problem(struct store *store, enum store_state state, const char *text)
{
	if (store->state >= state)
		return;
	store->state = state;
	free(store->problem);
	if (asprintf(&store->problem, "%s: %s", store->output.path, text) < 0)
		store->problem = NULL;
}

/* If `*err` says that a pipe is full, waits until its reader takes data, for STALL_MS at most.
 * True: try the call again; `*err` is freed. */
static bool is_writable_again(const struct store *store, struct ht_err **err)
{
	if (!*err || (*err)->code != HT_ERR_SYS || (*err)->sys != EAGAIN)
		return false;
	struct pollfd pipe = {.fd = store->output.fd, .events = POLLOUT};
	int ready;
	do
		ready = poll(&pipe, 1, STALL_MS);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		return false;
	ht_err_free(*err);
	*err = NULL;
	if (store->progress)
		__atomic_fetch_add(store->progress, 1, __ATOMIC_RELEASE);
	return true;
}

/* Turns an error of the output into a state, and frees it; returns other errors. */
static struct ht_err *note_error(struct store *store, struct ht_err *err)
{
	if (!err || err->code != HT_ERR_SYS)
		return err;
	if (err->sys == ENOSPC || err->sys == EDQUOT || err->sys == EFBIG)
		set_problem(store, STORE_FULL, err->message);
	else if (err->sys == EAGAIN)
		set_problem(store, STORE_BROKEN, "its reader accepted nothing for 5 s");
	else
		set_problem(store, STORE_BROKEN, err->message);
	ht_err_free(err);
	return NULL;
}

/* Call after any write. True if the writer put out a block of the trace; then the free disk space
 * is checked, too. */
static bool note_written(struct store *store)
{
	uint64_t bytes = trace_writer_bytes(store->writer);
	if (bytes == store->seen_bytes)
		return false;
	store->seen_bytes = bytes;
	if (ht_err_drop(check_space(store)))
		set_problem(store, STORE_FULL, "its file system is almost full");
	return true;
}

static struct ht_err *write_waiting(struct store *store, writer_step *step)
{
	struct ht_err *err;
	do
		err = step(store->writer);
	while (is_writable_again(store, &err));
	store->is_stuck = err != NULL;
	if (!err) {
		store->waiting_events = 0;
		store->block_since_ns = 0;
	}
	note_written(store);
	return note_error(store, err);
}

/* When the disk is full, the reserve is used for records that say how the trace ends. A later
 * REC_SYNC would claim that the dropped events are in the trace. */
static bool is_accepted(const struct store *store, enum rec_kind kind)
{
	if (store->state == STORE_FULL)
		return kind != REC_EVENTS && kind != REC_NODES && kind != REC_SYNC;
	return store->state == STORE_OK;
}

struct ht_err *store_put(struct store *store, const struct rec *rec, uint64_t events)
{
	struct ht_err *err;
	if (!is_accepted(store, rec->kind)) {
		store->dropped_events += events;
		return NULL;
	}
	do
		err = trace_writer_put(store->writer, rec);
	while (is_writable_again(store, &err));
	store->is_stuck = err != NULL;
	if (err) {
		store->dropped_events += events;
		return note_error(store, err);
	}
	store->has_records = true;
	if (note_written(store)) {
		store->waiting_events = 0;
		store->block_since_ns = 0;
	}
	store->given_events += events;
	store->waiting_events += events;
	if (!store->block_since_ns)
		store->block_since_ns = clock_mono_ns();
	return NULL;
}

struct ht_err *store_tick(struct store *store, uint64_t now_ns)
{
	bool is_old = store->block_since_ns && now_ns >= store->block_since_ns + BLOCK_AGE_MAX_NS;
	return is_old && store->state == STORE_OK ? write_waiting(store, trace_writer_flush) : NULL;
}

struct ht_err *store_flush(struct store *store)
{
	return store->state == STORE_BROKEN ? NULL : write_waiting(store, trace_writer_flush);
}

struct ht_err *store_finish(struct store *store)
{
	struct ht_err *err = NULL;
	if (store->state != STORE_BROKEN)
		err = write_waiting(store, trace_writer_finish);
	HT_THEN(err, note_error(store, output_publish(&store->output)));
	store->is_finished = !err;
	return err;
}

struct store_status store_status(const struct store *store)
{
	return (struct store_status){.state = store->state,
		.problem = store->problem,
		.dropped_events =
			store->dropped_events + (store->is_stuck ? store->waiting_events : 0),
		.safe_events = store->given_events - store->waiting_events,
		.bytes = trace_writer_bytes(store->writer),
		.beside = store->output.final_name ? store->output.name : ""};
}

int store_reopen(const struct store *store)
{
	char path[64];
	if (!store->output.is_regular)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", store->output.fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}
