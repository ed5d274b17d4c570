/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/scribe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "attach/daemon/now.h"
#include "format/helper.h"

#define TICK_MS	   200
#define READ_BYTES (1u << 18)

/* What the patience of scribe_options does not cover: a minute of looking up names, and a disk that
 * has a large file to write before it is durable. */
#define APPEND_PATIENCE_NS 65000000000u
#define SYNC_PATIENCE_NS   60000000000u

struct scribe {
	const struct scribe_options *options;
	struct scribe_page *page;
	struct store *store;
	struct bytes_out in;
	uint64_t put_bytes;
};

/* The pipe's number, behind the standard descriptors. */
enum { QUEUE_FD = STDERR_FILENO + 1 };

_Static_assert(SCRIBE_KEPT_FD == QUEUE_FD + 1, "no number is used twice");

#define show(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)

/* A reader that waits for the end of the parent's output must not wait for this process. */
static void leave_terminal(bool keep_stdout)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fd != STDOUT_FILENO || !keep_stdout)
			helper_silence(fd);
}

/* A process that cannot be killed must hold open neither the target, the lock nor the guardian's
 * socket. */
static void become_scribe(int fd, int kept_fd, const char *path)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* What ends the daemon's process group (Ctrl-\, timeout -s KILL) leaves us the rest. */
	setpgid(0, 0);
	prctl(PR_SET_NAME, "heaptap-writer");
	/* First: a standard descriptor may be closed, and `fd` in its place. */
	int kept[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, QUEUE_FD, -1};
	/* Neither may lie where the other goes. */
	if (kept_fd >= 0)
		kept_fd = fcntl(kept_fd, F_DUPFD_CLOEXEC, SCRIBE_KEPT_FD + 1);
	if (dup2(fd, QUEUE_FD) != QUEUE_FD)
		_exit(1);
	if (kept_fd >= 0)
		kept[4] = dup3(kept_fd, SCRIBE_KEPT_FD, O_CLOEXEC);
	if (!helper_close_all_but(kept, HT_ARRAY_SIZE(kept)))
		_exit(1);
	leave_terminal(!strcmp(path, "-"));
	fcntl(QUEUE_FD, F_SETFD, FD_CLOEXEC);
}

static void show_text(struct scribe *scribe, const char *text)
{
	snprintf(scribe->page->text, sizeof(scribe->page->text), "%s", text);
}

static void show_state(struct scribe *scribe)
{
	struct scribe_page *page = scribe->page;
	enum store_state state = store_state(scribe->store);
	show(&page->bytes, store_bytes(scribe->store));
	show(&page->dropped_events, store_dropped_events(scribe->store));
	show(&page->safe_events, store_safe_events(scribe->store));
	/* What is_done() has said is not the store's to take back. */
	if (state <= page->state)
		return;
	const char *problem = store_problem(scribe->store);
	show_text(scribe, problem ? problem : "no memory");
	show(&page->state, state);
}

static void show_progress(struct scribe *scribe)
{
	__atomic_fetch_add(&scribe->page->progress, 1, __ATOMIC_RELEASE);
}

/* All that was put is written. */
static void show_safe(struct scribe *scribe)
{
	if (store_state(scribe->store) == STORE_OK)
		show(&scribe->page->safe_bytes, scribe->put_bytes);
}

static void show_answer(struct scribe *scribe)
{
	show_state(scribe);
	show(&scribe->page->answers, scribe->page->answers + 1);
}

/* Errors of the output are the store's; these are our own, after which nothing can be written. */
static bool is_done(struct scribe *scribe, struct ht_err *err)
{
	if (!err)
		return true;
	show_text(scribe, err->message);
	show(&scribe->page->state, STORE_BROKEN);
	ht_err_free(err);
	return false;
}

static bool put(struct scribe *scribe, const struct scribe_message *message, const uint8_t *data)
{
	struct bytes view = bytes_of(data, message->length);
	uint64_t bytes = store_bytes(scribe->store);
	struct rec rec;
	struct ht_err *err = rec_decode(&view, &rec);
	HT_THEN(err, store_put(scribe->store, &rec, message->events));
	if (!is_done(scribe, err))
		return false;
	/* A block leaves before the record that found it full. */
	if (store_bytes(scribe->store) != bytes)
		show_safe(scribe);
	scribe->put_bytes += message->length;
	return true;
}

static bool flush(struct scribe *scribe)
{
	if (!is_done(scribe, store_flush(scribe->store)))
		return false;
	show_safe(scribe);
	return true;
}

static bool append(struct scribe *scribe)
{
	const struct scribe_options *options = scribe->options;
	struct scribe_page *page = scribe->page;
	if (!options->append || store_state(scribe->store) != STORE_OK)
		return true;
	show(&page->patience_ns, APPEND_PATIENCE_NS);
	show_progress(scribe);
	return is_done(scribe, options->append(scribe->store, options->context, page->appended,
				       sizeof(page->appended)));
}

static bool finish(struct scribe *scribe, bool named)
{
	if (!flush(scribe) || (named && !append(scribe)))
		return false;
	show(&scribe->page->patience_ns, SYNC_PATIENCE_NS);
	show_progress(scribe);
	return is_done(scribe, store_finish(scribe->store));
}

/* False when it was the last one. */
static bool carry_out(
	struct scribe *scribe, const struct scribe_message *message, const uint8_t *data)
{
	bool go_on = false;
	switch (message->kind) {
	case SCRIBE_PUT:
		go_on = put(scribe, message, data);
		show_state(scribe);
		break;
	case SCRIBE_FLUSH:
		go_on = flush(scribe);
		show_answer(scribe);
		break;
	case SCRIBE_DISCARD:
		store_discard(scribe->store);
		show_answer(scribe);
		break;
	case SCRIBE_FINISH:
	case SCRIBE_FINISH_NAMED:
		if (finish(scribe, message->kind == SCRIBE_FINISH_NAMED))
			show_safe(scribe);
		show_answer(scribe);
		break;
	}
	show_progress(scribe);
	return go_on;
}

/* Carries out what is whole in `in`. False when the last order was among it. */
static bool carry_out_all(struct scribe *scribe)
{
	struct bytes view = bytes_of(scribe->in.data, scribe->in.length);
	struct scribe_message message;
	const uint8_t *head, *data;
	bool go_on = true;
	for (struct bytes next = view; go_on && bytes_take(&next, sizeof(message), &head);) {
		memcpy(&message, head, sizeof(message));
		if (!bytes_take(&next, message.length, &data))
			break;
		go_on = carry_out(scribe, &message, data);
		view = next;
	}
	scribe->in.length = bytes_left(&view);
	memmove(scribe->in.data, view.at, scribe->in.length);
	return go_on;
}

/* False at the end of the pipe. */
static bool receive(struct scribe *scribe)
{
	if (!is_done(scribe, bytes_out_reserve(&scribe->in, READ_BYTES)))
		return false;
	ssize_t got = read(QUEUE_FD, scribe->in.data + scribe->in.length, READ_BYTES);
	if (got > 0)
		scribe->in.length += (size_t)got;
	return got > 0 || (got < 0 && errno == EINTR);
}

/* True: all was finished. False: the parent sends no more. */
static bool serve(struct scribe *scribe, pid_t parent)
{
	for (;;) {
		struct pollfd wait = {.fd = QUEUE_FD, .events = POLLIN};
		int ready = poll(&wait, 1, TICK_MS);
		if (ready > 0 && !receive(scribe))
			return false;
		if (ready > 0 && !carry_out_all(scribe))
			return true;
		/* A worker that cannot die may hold the other end open. */
		if (ready == 0 && getppid() != parent)
			return false;
		uint64_t bytes = store_bytes(scribe->store);
		if (!is_done(scribe, store_tick(scribe->store, now_mono_ns())))
			return true;
		if (store_bytes(scribe->store) != bytes)
			show_safe(scribe);
		show_state(scribe);
	}
}

static void show_opened(struct scribe *scribe, const struct ht_err *err)
{
	struct scribe_page *page = scribe->page;
	if (err) {
		page->failed = true;
		page->code = err->code;
		page->sys = err->sys;
		show_text(scribe, err->message);
	} else {
		show(&page->bytes, store_bytes(scribe->store));
		snprintf(page->beside, sizeof(page->beside), "%s", store_beside(scribe->store));
	}
	show(&page->answers, 1);
}

_Noreturn void scribe_run(
	int fd, pid_t parent, struct scribe_page *page, const struct scribe_options *options)
{
	struct scribe scribe = {.options = options, .page = page};
	struct store_options store = options->store;

	become_scribe(fd, options->kept_fd, store.path);
	page->patience_ns = options->patience_ns;
	store.progress = &page->progress;
	struct ht_err *err = store_create(&store, &scribe.store);
	show_opened(&scribe, err);
	if (err)
		_exit(0);
	if (!serve(&scribe, parent))
		ht_err_free(store_flush(scribe.store));
	store_destroy(scribe.store);
	_exit(0);
}
