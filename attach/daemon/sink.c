/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/daemon/now.h"
#include "attach/daemon/runstate.h"
#include "format/helper.h"

#define NS_PER_S	    1000000000ull
#define PATIENCE_DEFAULT_NS (5 * NS_PER_S)
#define CANCEL_PATIENCE_NS  NS_PER_S
#define STANDSTILL_NS	    (NS_PER_S / 4)
#define DEATH_PATIENCE_NS   NS_PER_S
#define PUSH_BYTES	    (64u << 10) /* so much is not kept for the next tick */

struct sink {
	char *path;
	pid_t scribe; /* -1: has ended, or cannot be ended */
	pid_t filter; /* -1: likewise, or there is none */
	int fd;	      /* to the filter, or the scribe; -1: nothing is passed on any more */
	struct scribe_page *page;
	struct filter_page *filter_page; /* NULL: there is no filter */
	struct bytes_out queue;
	size_t passed; /* of `queue`, to the scribe */
	bool takes_all;
	uint64_t patience_ns;
	bool (*is_cancelled)(void *context);
	void (*meanwhile)(void *context);
	void *context;
	uint32_t orders; /* given, each of which is answered */
	uint64_t put_bytes, put_events;
	uint64_t unqueued_events; /* there was no memory for them */
	char *problem;		  /* why it was given up */
};

static uint32_t look_u32(const uint32_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static uint64_t look_u64(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static size_t waiting_bytes(const struct sink *sink)
{
	return sink->queue.length - sink->passed;
}

static bool is_answered(const struct sink *sink)
{
	return look_u32(&sink->page->answers) == sink->orders;
}

static bool is_closed(const struct sink *sink)
{
	return sink->fd < 0;
}

/* --- the end of the scribe --- */

static void close_queue(struct sink *sink)
{
	if (sink->fd >= 0)
		close(sink->fd);
	sink->fd = -1;
	bytes_out_deinit(&sink->queue);
	sink->passed = 0;
}

/* Waits for the end of a process, which `*pid` does not name any more then. */
static bool await_death(pid_t *pid, uint64_t patience_ns)
{
	if (*pid >= 0 && helper_ends_within(*pid, patience_ns))
		*pid = -1;
	return *pid < 0;
}

/* One that waits for a file system's server may not even die of SIGKILL: it is left to init. */
static void kill_process(pid_t *pid)
{
	if (*pid >= 0)
		kill(*pid, SIGKILL);
	(void)await_death(pid, DEATH_PATIENCE_NS);
	*pid = -1;
}

static void kill_writers(struct sink *sink)
{
	close_queue(sink);
	kill_process(&sink->filter);
	kill_process(&sink->scribe);
}

/* What was put and is in no file; in words, because a filter changes the number of bytes. */
static void say_lost(const struct sink *sink, bool is_known, char *ret, size_t bytes)
{
	const uint64_t lost_bytes = sink->put_bytes - look_u64(&sink->page->safe_bytes);
	const uint64_t lost_events = sink->put_events - look_u64(&sink->page->safe_events);
	const bool is_lost = sink->filter_page ? lost_events : lost_bytes;
	if (is_lost && sink->filter_page)
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

/* Data that is in no file by now is lost. `why` counts unless the scribe knows the reason. */
static void give_up(struct sink *sink, const char *why)
{
	const struct scribe_page *page = sink->page;
	const char *beside = *page->beside ? "; the trace is beside it in " : "";
	bool is_known = look_u32(&page->state) == STORE_BROKEN;
	char lost[120];

	kill_writers(sink);
	say_lost(sink, is_known, lost, sizeof(lost));
	int length = is_known ? asprintf(&sink->problem, "%s%s", page->text, lost)
			      : asprintf(&sink->problem, "%s: %s%s%s%s", sink->path, why, beside,
					page->beside, lost);
	if (length < 0)
		sink->problem = NULL;
}

/* Has the filter ended before the scribe? What it gave until then is written first. */
static bool is_filter_dead(struct sink *sink, char *ret_why, size_t bytes)
{
	const struct filter_page *page = sink->filter_page;
	if (!page || !await_death(&sink->filter, DEATH_PATIENCE_NS) || page->ended)
		return false;
	snprintf(ret_why, bytes, "the filter of --cull %s%s",
		page->failed ? "failed: " : "was ended, perhaps for lack of memory",
		page->failed ? page->text : "");
	close_queue(sink);
	(void)await_death(&sink->scribe, sink->patience_ns);
	return true;
}

static void give_up_dead(struct sink *sink)
{
	char why[300];
	give_up(sink, is_filter_dead(sink, why, sizeof(why))
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

/* Passes on what does not block. */
static void push(struct sink *sink)
{
	while (!is_closed(sink) && waiting_bytes(sink)) {
		ssize_t n = write(sink->fd, sink->queue.data + sink->passed, waiting_bytes(sink));
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

/* For how long it has not moved, as far as that is its output's fault. */
struct wait {
	uint64_t since_ns, looked_ns;
};

/* Does it wait for a processor, or was it stopped and is continued? */
static bool is_held_up(pid_t pid)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	int stat = pid >= 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char state = stat >= 0 ? runstate_read(stat) : '?';
	if (stat >= 0)
		close(stat);
	return state == 'R' || (state == 'T' && kill(pid, SIGCONT) == 0);
}

/* The output is not the reason. */
static bool has_another_reason(const struct sink *sink)
{
	return is_held_up(sink->scribe) || is_held_up(sink->filter);
}

/* If heaptap had no turn itself, it cannot tell whether the scribe had one. */
static bool is_late(
	const struct sink *sink, struct wait *wait, bool has_moved, uint64_t patience_ns)
{
	uint64_t now_ns = now_mono_ns();
	if (!wait->since_ns || has_moved || now_ns - wait->looked_ns > STANDSTILL_NS)
		wait->since_ns = now_ns;
	wait->looked_ns = now_ns;
	if (now_ns - wait->since_ns <= patience_ns)
		return false;
	if (has_another_reason(sink))
		wait->since_ns = now_ns;
	return wait->since_ns != now_ns;
}

/* Until the last order is carried out, or nothing moves any more; with `hurry` no longer than a
 * second after it was cancelled, for what takes a little at a time moves for hours. `meanwhile`:
 * NULL, or called in between. */
static void await_answer(struct sink *sink, bool hurry, void (*meanwhile)(void *))
{
	const struct scribe_page *page = sink->page;
	struct wait wait = {0};
	uint64_t seen = 0, cancelled_ns = 0;
	while (!is_closed(sink) && !is_answered(sink)) {
		struct pollfd pipe = {.fd = sink->fd};
		push(sink);
		pipe.events = waiting_bytes(sink) ? POLLOUT : 0;
		/* All at the other end that can be waited for here is its death. */
		poll(&pipe, 1, 1);
		if (meanwhile)
			meanwhile(sink->context);
		if (pipe.revents & POLLERR && !is_answered(sink))
			give_up_dead(sink);
		uint64_t now = now_mono_ns(), patience_ns = look_u64(&page->patience_ns);
		uint64_t progress = look_u64(&page->progress);
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
	const struct scribe_page *page = sink->page;
	struct wait wait = {0};
	while (!is_answered(sink)) {
		struct pollfd pipe = {.fd = sink->fd};
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

static struct ht_err *make_pipe(bool waits, int *ret_read, int *ret_write)
{
	int fd[2];
	if (pipe2(fd, O_CLOEXEC) < 0)
		return ht_err_sys(errno, "cannot make a pipe");
	/* What it cannot get larger waits here. */
	(void)fcntl(fd[1], F_SETPIPE_SZ, SINK_QUEUE_BYTES);
	*ret_read = fd[0];
	*ret_write = fd[1];
	if (waits || fcntl(fd[1], F_SETFL, O_NONBLOCK) == 0)
		return NULL;
	struct ht_err *err = ht_err_sys(errno, "cannot make a pipe that does not block");
	close(fd[0]);
	return err;
}

static struct ht_err *start_scribe(
	struct sink *sink, const struct sink_options *options, int read_fd)
{
	/* With a filter the pipe is closed when that ends, which may take longer. */
	pid_t parent = options->cull_ns ? 0 : getpid();
	sink->scribe = fork();
	if (sink->scribe == 0)
		scribe_run(read_fd, parent, sink->page,
			&(struct scribe_options){.store = {.path = options->path,
							 .replace = options->replace,
							 .reserve_bytes = options->reserve_bytes},
				.append = options->append,
				.context = options->context,
				.kept_fd = options->append_fd > 0 ? options->append_fd : -1,
				.patience_ns = sink->patience_ns});
	int sys = errno;
	close(read_fd);
	return sink->scribe < 0 ? ht_err_sys(sys, "cannot fork the process that writes the trace")
				: NULL;
}

/* Puts the filter before the scribe, whose pipe is sink->fd until now. */
static struct ht_err *start_filter(struct sink *sink, uint64_t cull_ns)
{
	struct filter_options options = {
		.cull_ns = cull_ns, .to = sink->fd, .parent = getpid(), .page = sink->filter_page};
	sink->fd = -1;
	struct ht_err *err = make_pipe(false, &options.from, &sink->fd);
	if (err) {
		close(options.to);
		return err;
	}
	sink->filter = fork();
	if (sink->filter == 0)
		filter_run(&options);
	int sys = errno;
	close(options.from);
	close(options.to);
	return sink->filter < 0 ? ht_err_sys(sys, "cannot fork the filter of --cull") : NULL;
}

static struct ht_err *start(struct sink *sink, const struct sink_options *options)
{
	int read_fd;
	HT_TRY(make_pipe(options->cull_ns, &read_fd, &sink->fd));
	HT_TRY(start_scribe(sink, options, read_fd));
	return options->cull_ns ? start_filter(sink, options->cull_ns) : NULL;
}

static void *shared_page(size_t bytes)
{
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return page == MAP_FAILED ? NULL : page;
}

static void free_sink(struct sink *sink)
{
	if (sink->page)
		munmap(sink->page, sizeof(*sink->page));
	if (sink->filter_page)
		munmap(sink->filter_page, sizeof(*sink->filter_page));
	free(sink->problem);
	free(sink->path);
	free(sink);
}

struct ht_err *sink_create(const struct sink_options *options, struct sink **ret)
{
	struct sink *sink = calloc(1, sizeof(*sink));
	if (!sink)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the output");
	*sink = (struct sink){.scribe = -1,
		.filter = -1,
		.fd = -1,
		.orders = 1,
		.is_cancelled = options->is_cancelled,
		.meanwhile = options->meanwhile,
		.context = options->context};
	sink->path = strdup(options->path);
	sink->page = shared_page(sizeof(*sink->page));
	sink->filter_page = options->cull_ns ? shared_page(sizeof(*sink->filter_page)) : NULL;
	if (!sink->path || !sink->page || (options->cull_ns && !sink->filter_page)) {
		free_sink(sink);
		return ht_err_new(HT_ERR_NOMEM, "no memory for the output");
	}
	sink->patience_ns = options->patience_ns ? options->patience_ns : PATIENCE_DEFAULT_NS;
	sink->page->patience_ns = sink->patience_ns;
	struct ht_err *err = start(sink, options);
	if (!err)
		err = await_opened(sink);
	if (err) {
		kill_writers(sink);
		sink_destroy(sink);
		return err;
	}
	*ret = sink;
	return NULL;
}

/* Closes the file, too: also that can wait for ever. */
static void dismiss_writers(struct sink *sink)
{
	close_queue(sink);
	if (!await_death(&sink->filter, sink->patience_ns) ||
		!await_death(&sink->scribe, sink->patience_ns))
		kill_writers(sink);
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
		push(sink);
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

void sink_tick(struct sink *sink)
{
	push(sink);
}

int sink_fd(const struct sink *sink)
{
	return waiting_bytes(sink) ? sink->fd : -1;
}

void sink_flush(struct sink *sink)
{
	if (is_closed(sink))
		return;
	struct ht_err *err = order(sink, ORDER_FLUSH);
	if (err)
		give_up(sink, err->message);
	ht_err_free(err);
	await_answer(sink, true, NULL);
}

void sink_finish(struct sink *sink, bool named)
{
	/* Before names are looked up for a minute: what does not answer now will not then. */
	sink_flush(sink);
	if (is_closed(sink))
		return;
	struct ht_err *err = order(sink, named ? ORDER_FINISH_NAMED : ORDER_FINISH);
	if (err)
		give_up(sink, err->message);
	ht_err_free(err);
	await_answer(sink, false, sink->meanwhile);
	if (sink_state(sink) == STORE_BROKEN && !sink->problem)
		give_up(sink, "");
	dismiss_writers(sink);
}

void sink_discard(struct sink *sink)
{
	if (is_closed(sink))
		return;
	struct ht_err *err = order(sink, ORDER_DISCARD);
	if (err)
		give_up(sink, err->message);
	ht_err_free(err);
	await_answer(sink, true, NULL);
	dismiss_writers(sink);
}

enum store_state sink_state(const struct sink *sink)
{
	return sink->problem ? STORE_BROKEN : (enum store_state)look_u32(&sink->page->state);
}

const char *sink_problem(const struct sink *sink)
{
	if (sink->problem)
		return sink->problem;
	return sink_state(sink) == STORE_OK ? NULL : sink->page->text;
}

const char *sink_append_problem(const struct sink *sink)
{
	return sink->page->appended;
}

uint64_t sink_dropped_events(const struct sink *sink)
{
	if (sink_state(sink) == STORE_BROKEN)
		return sink->put_events - look_u64(&sink->page->safe_events);
	return look_u64(&sink->page->dropped_events) + sink->unqueued_events;
}

uint64_t sink_bytes(const struct sink *sink)
{
	return look_u64(&sink->page->bytes);
}

struct sink_filtered sink_filtered(const struct sink *sink)
{
	if (!sink->filter_page)
		return (struct sink_filtered){0};
	return (struct sink_filtered){.live_blocks = look_u64(&sink->filter_page->live_blocks),
		.table_bytes = look_u64(&sink->filter_page->table_bytes)};
}

const char *sink_beside(const struct sink *sink)
{
	return sink->page->beside;
}
