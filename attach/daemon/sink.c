/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/sink.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/clock.h"

#define NS_PER_S	    1000000000ull
#define PATIENCE_DEFAULT_NS (5 * NS_PER_S)
#define CANCEL_PATIENCE_NS  NS_PER_S
#define STANDSTILL_NS	    (NS_PER_S / 4)
#define PUSH_BYTES	    (64u << 10) /* sink_put writes a queue of this size at once */

struct sink {
	char *path;
	struct writers writers;
	struct bytes_out queue;
	size_t passed; /* bytes of `queue` that were written to the pipe */
	bool takes_all;
	uint64_t patience_ns;
	bool (*is_cancelled)(void *context);
	void (*meanwhile)(void *context);
	void *context;
	uint32_t orders; /* orders that are answered, given so far; the opening counts as one */
	uint64_t put_bytes, put_events;
	uint64_t unqueued_events; /* events of records that could not be put into the queue */
	bool is_given_up;
	char *problem; /* why the output was given up; NULL: it was not, or no memory */
};

#define load(at) __atomic_load_n(at, __ATOMIC_ACQUIRE)

static size_t waiting_bytes(const struct sink *sink)
{
	return sink->queue.length - sink->passed;
}

static bool is_answered(const struct sink *sink)
{
	return load(&sink->writers.page->answers) == sink->orders;
}

static bool is_closed(const struct sink *sink)
{
	return sink->writers.fd < 0;
}

/* --- the end of the scribe --- */

static void close_queue(struct sink *sink)
{
	writers_close(&sink->writers);
	bytes_out_deinit(&sink->queue);
	sink->passed = 0;
}

/* Writes to `ret` how much is missing in the file: in bytes, or with a filter in events, since a
 * filter changes the number of bytes. */
static void say_lost(const struct sink *sink, bool is_known, char *ret, size_t bytes)
{
	const uint64_t lost_bytes = sink->put_bytes - load(&sink->writers.page->safe_bytes);
	const uint64_t lost_events = sink->put_events - load(&sink->writers.page->safe_events);
	const bool is_lost = sink->writers.filter_page ? lost_events : lost_bytes;
	if (is_lost && sink->writers.filter_page)
		snprintf(ret, bytes, "; %llu events are not in the trace",
			(unsigned long long)lost_events);
	else if (is_lost)
		snprintf(ret, bytes,
			"; %llu bytes of records were not written; write to another place with -o",
			(unsigned long long)lost_bytes);
	else
		snprintf(ret, bytes, "%s",
			is_known ? "" : "; all records are written, but may not be durable");
}

/* Kills the writers: records that they have not written are lost. The problem is `why`, unless the
 * scribe has given a reason. */
static void give_up(struct sink *sink, const char *why)
{
	const struct scribe_page *page = sink->writers.page;
	const char *beside = *page->beside ? "; the trace is beside it in " : "";
	bool is_known = load(&page->state) == STORE_BROKEN;
	char lost[120];

	close_queue(sink);
	writers_kill(&sink->writers);
	say_lost(sink, is_known, lost, sizeof(lost));
	int length = is_known ? asprintf(&sink->problem, "%s%s", page->text, lost)
			      : asprintf(&sink->problem, "%s: %s%s%s%s", sink->path, why, beside,
					page->beside, lost);
	if (length < 0)
		sink->problem = NULL;
	sink->is_given_up = true;
}

static void give_up_dead(struct sink *sink)
{
	char why[300];
	give_up(sink, writers_lost_filter(&sink->writers, sink->patience_ns, why, sizeof(why))
			      ? why
			      : "the process that writes it was ended");
}

static void give_up_late(struct sink *sink, uint64_t patience_ns)
{
	char why[80];
	snprintf(why, sizeof(why), "its file system or reader accepted nothing for %llu s",
		(unsigned long long)(patience_ns / NS_PER_S));
	give_up(sink, why);
}

/* --- the queue --- */

static void forget_passed(struct sink *sink)
{
	struct bytes_out *queue = &sink->queue;
	if (2 * sink->passed < queue->length)
		return;
	queue->length -= sink->passed;
	if (queue->length)
		memmove(queue->data, queue->data + sink->passed, queue->length);
	sink->passed = 0;
}

void sink_tick(struct sink *sink)
{
	while (!is_closed(sink) && waiting_bytes(sink)) {
		ssize_t n = write(
			sink->writers.fd, sink->queue.data + sink->passed, waiting_bytes(sink));
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR)
			give_up_dead(sink);
		if (n > 0)
			sink->passed += (size_t)n;
	}
	forget_passed(sink);
}

static struct ht_err *enqueue(
	struct sink *sink, enum order_kind kind, const struct rec *rec, uint64_t events)
{
	const size_t start = sink->queue.length;
	HT_TRY(orders_put(&sink->queue, kind, rec, events));
	sink->put_bytes += sink->queue.length - start - sizeof(struct order);
	return NULL;
}

static struct ht_err *order(struct sink *sink, enum order_kind kind)
{
	HT_TRY(enqueue(sink, kind, NULL, 0));
	sink->orders++;
	return NULL;
}

static bool is_cancelled(const struct sink *sink)
{
	return sink->is_cancelled && sink->is_cancelled(sink->context);
}

/* --- waiting for the scribe --- */

/* Since when the scribe has made no progress, not counting times in which the scribe or heaptap
 * could not run. */
struct wait {
	uint64_t since_ns, looked_ns;
};

/* If heaptap itself could not run, it cannot tell whether the scribe could: the time begins
 * anew. */
static bool is_late(
	const struct sink *sink, struct wait *wait, bool has_moved, uint64_t patience_ns)
{
	uint64_t now_ns = clock_mono_ns();
	if (!wait->since_ns || has_moved || now_ns - wait->looked_ns > STANDSTILL_NS)
		wait->since_ns = now_ns;
	wait->looked_ns = now_ns;
	if (now_ns - wait->since_ns <= patience_ns)
		return false;
	/* A scribe that is stopped, or waits for a processor, does not show a slow output. */
	if (writers_are_held_up(&sink->writers))
		wait->since_ns = now_ns;
	return wait->since_ns != now_ns;
}

/* Waits until the last order is answered, or gives up when the scribe makes no progress. With
 * `hurry`, waits at most a second after is_cancelled: an output that takes a little at a time would
 * make progress for hours. Calls `meanwhile`, if not NULL, every few milliseconds. */
static void await_answer(struct sink *sink, bool hurry, void (*meanwhile)(void *))
{
	const struct scribe_page *page = sink->writers.page;
	struct wait wait = {0};
	uint64_t seen = 0, cancelled_ns = 0;
	while (!is_closed(sink) && !is_answered(sink)) {
		struct pollfd pipe = {.fd = sink->writers.fd};
		sink_tick(sink);
		pipe.events = waiting_bytes(sink) ? POLLOUT : 0;
		/* Without POLLOUT poll reports only that the reading end is closed. */
		poll(&pipe, 1, 1);
		if (meanwhile)
			meanwhile(sink->context);
		if (pipe.revents & POLLERR && !is_answered(sink))
			give_up_dead(sink);
		uint64_t now = clock_mono_ns(), patience_ns = load(&page->patience_ns);
		uint64_t progress = load(&page->progress);
		bool has_moved = progress != seen;
		seen = progress;
		if (hurry && !cancelled_ns && is_cancelled(sink))
			cancelled_ns = now;
		if (!is_closed(sink) && is_late(sink, &wait, has_moved, patience_ns))
			give_up_late(sink, patience_ns);
		if (!is_closed(sink) && cancelled_ns && now - cancelled_ns > CANCEL_PATIENCE_NS)
			give_up(sink, "interrupted before everything was written");
	}
}

/* Gives an order and waits until it is carried out; see await_answer. */
static void carry_out(
	struct sink *sink, enum order_kind kind, bool hurry, void (*meanwhile)(void *))
{
	struct ht_err *err = order(sink, kind);
	if (err)
		give_up(sink, err->message);
	ht_err_free(err);
	await_answer(sink, hurry, meanwhile);
}

/* --- beginning and end --- */

static struct ht_err *judge_opening(const struct sink *sink, struct wait *wait)
{
	bool cancelled = is_cancelled(sink);
	if (!is_late(sink, wait, false, cancelled ? CANCEL_PATIENCE_NS : PATIENCE_DEFAULT_NS))
		return NULL;
	if (cancelled)
		return ht_err_new(HT_ERR_REFUSED,
			"interrupted while the file system of %s did not answer; the process was "
			"not touched",
			sink->path);
	return ht_err_new(HT_ERR_USAGE,
		"cannot open %s: its file system did not answer for %llu s; write to another place "
		"with -o",
		sink->path, PATIENCE_DEFAULT_NS / NS_PER_S);
}

static struct ht_err *await_opened(struct sink *sink)
{
	const struct scribe_page *page = sink->writers.page;
	struct wait wait = {0};
	while (!is_answered(sink)) {
		struct pollfd pipe = {.fd = sink->writers.fd};
		poll(&pipe, 1, 1);
		if (pipe.revents & POLLERR && !is_answered(sink))
			return ht_err_new(HT_ERR_INTERNAL,
				"%s: the process that writes it was ended", sink->path);
		struct ht_err *err = judge_opening(sink, &wait);
		if (err && !is_answered(sink))
			return err;
		ht_err_free(err);
	}
	if (!page->failed)
		return NULL;
	struct ht_err *err = ht_err_new(page->code, "%s", page->text);
	err->sys = page->sys;
	return err;
}

static void free_sink(struct sink *sink)
{
	writers_deinit(&sink->writers);
	free(sink->problem);
	free(sink->path);
	free(sink);
}

struct ht_err *sink_create(const struct sink_options *options, struct sink **ret)
{
	struct sink *sink = calloc(1, sizeof(*sink));
	if (!sink)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the output");
	*sink = (struct sink){.writers = WRITERS_NONE,
		.path = strdup(options->path),
		.patience_ns = options->patience_ns ? options->patience_ns : PATIENCE_DEFAULT_NS,
		.orders = 1,
		.is_cancelled = options->is_cancelled,
		.meanwhile = options->meanwhile,
		.context = options->context};
	const struct scribe_options scribe = {.store = {.path = options->path,
						      .replace = options->replace,
						      .reserve_bytes = options->reserve_bytes},
		.append = options->append,
		.context = options->context,
		.kept_fd = options->append_fd > 0 ? options->append_fd : -1,
		.patience_ns = sink->patience_ns};
	struct ht_err *err = sink->path ? writers_start(&sink->writers, &scribe, options->cull_ns)
					: ht_err_new(HT_ERR_NOMEM, "no memory for the output");
	HT_THEN(err, await_opened(sink));
	if (err) {
		writers_kill(&sink->writers);
		free_sink(sink);
		return err;
	}
	*ret = sink;
	return NULL;
}

/* The scribe closes the file as it ends, and even that may never return. */
static void dismiss_writers(struct sink *sink)
{
	close_queue(sink);
	if (!writers_end(&sink->writers, sink->patience_ns))
		writers_kill(&sink->writers);
}

void sink_destroy(struct sink *sink)
{
	if (!sink)
		return;
	sink_flush(sink);
	dismiss_writers(sink);
	free_sink(sink);
}

/* --- records --- */

struct ht_err *sink_put(struct sink *sink, const struct rec *rec, uint64_t events)
{
	sink->put_events += events;
	if (is_closed(sink) || sink_state(sink) == STORE_BROKEN)
		return NULL;
	if (waiting_bytes(sink) >= SINK_QUEUE_MAX_BYTES) {
		give_up(sink, "it accepted data too slowly");
		return NULL;
	}
	struct ht_err *err = enqueue(sink, ORDER_PUT, rec, events);
	if (err)
		sink->unqueued_events += events;
	else if (waiting_bytes(sink) >= PUSH_BYTES)
		sink_tick(sink);
	return err;
}

void sink_drop(struct sink *sink, uint64_t events)
{
	sink->put_events += events;
	sink->unqueued_events += events;
}

bool sink_has_room(const struct sink *sink)
{
	return sink->takes_all || is_closed(sink) || waiting_bytes(sink) < SINK_QUEUE_BYTES;
}

void sink_take_all(struct sink *sink)
{
	sink->takes_all = true;
}

int sink_fd(const struct sink *sink)
{
	return waiting_bytes(sink) ? sink->writers.fd : -1;
}

void sink_flush(struct sink *sink)
{
	if (!is_closed(sink))
		carry_out(sink, ORDER_FLUSH, true, NULL);
}

void sink_finish(struct sink *sink, bool named)
{
	/* Flush before names are looked up, which takes up to a minute: an output that does not
	 * answer now will not answer then. */
	sink_flush(sink);
	if (is_closed(sink))
		return;
	carry_out(sink, named ? ORDER_FINISH_NAMED : ORDER_FINISH, false, sink->meanwhile);
	if (sink_state(sink) == STORE_BROKEN && !sink->is_given_up)
		give_up(sink, "");
	dismiss_writers(sink);
}

void sink_discard(struct sink *sink)
{
	if (is_closed(sink))
		return;
	carry_out(sink, ORDER_DISCARD, true, NULL);
	dismiss_writers(sink);
}

enum store_state sink_state(const struct sink *sink)
{
	return sink->is_given_up ? STORE_BROKEN
				 : (enum store_state)load(&sink->writers.page->state);
}

const char *sink_problem(const struct sink *sink)
{
	if (sink->problem)
		return sink->problem;
	if (sink->is_given_up)
		return "it could not be written, and there is no memory for the reason";
	return sink_state(sink) == STORE_OK ? NULL : sink->writers.page->text;
}

const char *sink_append_problem(const struct sink *sink)
{
	return sink->writers.page->appended;
}

uint64_t sink_dropped_events(const struct sink *sink)
{
	if (sink_state(sink) == STORE_BROKEN)
		return sink->put_events - load(&sink->writers.page->safe_events);
	return load(&sink->writers.page->dropped_events) + sink->unqueued_events;
}

uint64_t sink_bytes(const struct sink *sink)
{
	return load(&sink->writers.page->bytes);
}

struct sink_filtered sink_filtered(const struct sink *sink)
{
	if (!sink->writers.filter_page)
		return (struct sink_filtered){0};
	return (struct sink_filtered){.live_blocks = load(&sink->writers.filter_page->live_blocks),
		.table_bytes = load(&sink->writers.filter_page->table_bytes)};
}

const char *sink_beside(const struct sink *sink)
{
	return sink->writers.page->beside;
}
