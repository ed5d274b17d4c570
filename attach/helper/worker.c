/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/helper/worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/helper/message.h"
#include "attach/helper/priority.h"
#include "attach/helper/pulse.h"
#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "format/helper.h"

#define MESSAGE_TEXT_BYTES 1024u
#define DEATH_PATIENCE_NS  CLOCK_NS_PER_S
#define MOVE_NS		   (50 * CLOCK_NS_PER_MS) /* a move to a core takes less, or never ends */

/* A reply, interim or last, with its descriptors as SCM_RIGHTS in the order of `has_fd`. */
struct message {
	bool last;
	bool failed;
	enum ht_err_code code;
	int sys;
	char text[MESSAGE_TEXT_BYTES];
	bool has_fd[WORKER_FDS_MAX];
	uint8_t data[WORKER_REPLY_BYTES];
};

static struct ht_err *send_message(
	int fd, struct message *message, const struct worker_reply *reply)
{
	int fds[WORKER_FDS_MAX];
	size_t fd_count = 0;

	memcpy(message->data, reply->data, sizeof(message->data));
	for (size_t i = 0; i < WORKER_FDS_MAX; i++) {
		message->has_fd[i] = reply->fd[i] >= 0;
		if (message->has_fd[i])
			fds[fd_count++] = reply->fd[i];
	}
	return message_send(fd, message, sizeof(*message), fds, fd_count, 0) < 0
		       ? ht_err_sys(errno, "cannot ask the worker for its descriptors")
		       : NULL;
}

static void send_outcome(int fd, struct ht_err *err, const struct worker_reply *reply)
{
	static struct message message = {.last = true};

	if (err) {
		message.failed = true;
		message.code = err->code;
		message.sys = err->sys;
		strncpy(message.text, err->message, sizeof(message.text) - 1);
	}
	ht_err_free(send_message(fd, &message, reply));
}

static int parent_fd = -1;

struct ht_err *worker_hand_over(const struct worker_reply *reply)
{
	static struct message message;
	return send_message(parent_fd, &message, reply);
}

/* The kernel drops descriptors for which this process has no free number. */
static struct ht_err *take_fds(const int *fd, size_t count, const bool has_fd[WORKER_FDS_MAX],
	const char *what, int ret_fd[WORKER_FDS_MAX])
{
	size_t at = 0;
	bool all = true;

	for (size_t i = 0; i < WORKER_FDS_MAX; i++) {
		if (has_fd[i] && at < count)
			ret_fd[i] = fd[at++];
		all &= has_fd[i] == (ret_fd[i] >= 0);
	}
	return all ? NULL : ht_err_sys(EMFILE, "%s: cannot get descriptors from the worker", what);
}

static void forget_fds(struct worker_reply *reply)
{
	for (size_t i = 0; i < WORKER_FDS_MAX; i++)
		fd_close(&reply->fd[i]);
}

/* Each message replaces the one before. */
static struct ht_err *take_message(
	int fd, const char *what, struct worker_reply *ret, bool *ret_last)
{
	struct message message;
	int fds[WORKER_FDS_MAX];
	size_t fd_count = WORKER_FDS_MAX;
	ssize_t got = message_receive(fd, &message, sizeof(message), fds, &fd_count, 0);
	*ret_last = true;
	if (got < 0)
		return ht_err_sys(errno, "%s: no answer from the worker", what);
	if (got != (ssize_t)sizeof(message))
		return ht_err_new(HT_ERR_INTERNAL, "%s: the worker died", what);
	struct ht_err *err = NULL;
	if (message.failed) {
		message.text[MESSAGE_TEXT_BYTES - 1] = '\0';
		err = ht_err_new(message.code, "%s", message.text);
		err->sys = message.sys;
	}
	*ret_last = message.last;
	memcpy(ret->data, message.data, sizeof(ret->data));
	forget_fds(ret);
	err = ht_err_first(err, take_fds(fds, fd_count, message.has_fd, what, ret->fd));
	if (message.last)
		return err;
	/* The last reply carries the same descriptors again. */
	ht_err_free(err);
	return NULL;
}

/* Not SIGKILL, which cannot be blocked. */
static const int death_signal = SIGUSR1;
static unsigned death_put_off;

static void mask(int how, int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(how, &set, NULL);
}

void worker_put_off_death(void)
{
	if (death_put_off++ == 0)
		mask(SIG_BLOCK, death_signal);
}

void worker_resume_death(void)
{
	if (--death_put_off == 0)
		mask(SIG_UNBLOCK, death_signal);
}

/* A signal to the daemon's process group, as from timeout(1), must not hit the worker, too. */
static void die_with_parent(void)
{
	setpgid(0, 0);
	signal(death_signal, SIG_DFL);
	mask(SIG_UNBLOCK, death_signal);
	prctl(PR_SET_PDEATHSIG, death_signal);
}

#define AWAIT_NS 200000 /* each look takes the core from the thread that should stop */

static void expect_stops(void)
{
	/* The kernel does not send an ignored SIGCHLD for a stop. */
	signal(SIGCHLD, SIG_DFL);
	mask(SIG_BLOCK, SIGCHLD);
}

void worker_await_stop(void)
{
	const struct timespec span = {.tv_nsec = AWAIT_NS};
	sigset_t stops;
	sigemptyset(&stops);
	sigaddset(&stops, SIGCHLD);
	(void)sigtimedwait(&stops, NULL, &span);
}

static void child_main(int fd, pid_t parent,
	struct ht_err *(*job)(void *context, struct worker_reply *reply), void *context)
{
	struct worker_reply reply = WORKER_NO_REPLY;

	die_with_parent();
	expect_stops();
	(void)pulse_watch();
	(void)priority_raise();
	if (getppid() != parent)
		_exit(1);
	parent_fd = fd;
	send_outcome(fd, job(context, &reply), &reply);
	_exit(0);
}

/* Continue a worker that a SIGSTOP has stopped: it may hold a thread of the target, which would
 * stay stopped. */
static void keep_running(int pidfd)
{
	siginfo_t info = {0};
	if (waitid(P_PIDFD, (id_t)pidfd, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid)
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGCONT, NULL, 0);
}

/* The caller reads the replies only after this: to wake up for each reply would take the core from
 * the thread that the worker holds. */
static void wait_for_end(pid_t child, uint64_t deadline_mono_ns)
{
	int fd = (int)syscall(SYS_pidfd_open, child, 0);
	if (fd < 0)
		return;
	while (clock_mono_ns() < deadline_mono_ns) {
		uint64_t look_ns = clock_mono_ns() + MOVE_NS;
		if (message_await(fd, look_ns < deadline_mono_ns ? look_ns : deadline_mono_ns))
			break;
		keep_running(fd);
		priority_spare(child);
	}
	close(fd);
}

struct ht_err *worker_run(const char *what, uint64_t deadline_mono_ns,
	struct ht_err *(*job)(void *context, struct worker_reply *reply), void *context,
	struct worker_reply *ret)
{
	pid_t parent = getpid(), child;
	int fd;
	*ret = WORKER_NO_REPLY;
	struct ht_err *err = helper_fork_pair("a worker process", &child, &fd);
	if (err)
		return ht_err_wrap(err, "%s", what);
	if (child == 0)
		child_main(fd, parent, job, context);
	ret->begun = true;
	wait_for_end(child, deadline_mono_ns);
	bool is_late = false;
	for (bool last = false; !err && !last;) {
		if (message_await(fd, deadline_mono_ns)) {
			err = take_message(fd, what, ret, &last);
			continue;
		}
		kill(child, SIGKILL);
		is_late = true;
		err = ht_err_new(HT_ERR_REFUSED,
			"%s: not done in time (a thread in an uninterruptible call, a frozen "
			"control group?); try again",
			what);
	}
	close(fd);
	/* A worker that waits for a file system's server may survive even SIGKILL: leave it to
	 * init. */
	if (is_late)
		(void)helper_ends_within(child, DEATH_PATIENCE_NS);
	else
		(void)helper_wait(child);
	return err;
}
