/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/helper/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/helper/priority.h"
#include "attach/helper/pulse.h"
#include "attach/proc/clock.h"

#define MESSAGE_TEXT_BYTES 1024u
#define DEATH_PATIENCE_NS  CLOCK_NS_PER_S
#define MOVE_NS		   (50 * CLOCK_NS_PER_MS) /* it comes to a core in less, or never */

/* What the child sends: its outcome, or what it has of it, and the descriptors as SCM_RIGHTS in the
 * order of `has_fd`. */
struct message {
	bool last;
	bool failed;
	enum ht_err_code code;
	int sys;
	char text[MESSAGE_TEXT_BYTES];
	bool has_fd[WORKER_FDS_MAX];
	uint8_t data[WORKER_REPLY_BYTES];
};

union fd_control {
	struct cmsghdr header;
	char space[CMSG_SPACE(WORKER_FDS_MAX * sizeof(int))];
};

static struct ht_err *send_message(
	int fd, struct message *message, const struct worker_reply *reply)
{
	union fd_control control = {0};
	int fds[WORKER_FDS_MAX];
	size_t fd_count = 0;
	ssize_t sent;

	memcpy(message->data, reply->data, sizeof(message->data));
	for (size_t i = 0; i < WORKER_FDS_MAX; i++) {
		message->has_fd[i] = reply->fd[i] >= 0;
		if (message->has_fd[i])
			fds[fd_count++] = reply->fd[i];
	}
	struct iovec iov = {.iov_base = message, .iov_len = sizeof(*message)};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	if (fd_count) {
		header.msg_control = control.space;
		header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
	}
	do
		sent = sendmsg(fd, &header, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? ht_err_sys(errno, "cannot ask the worker for its descriptors") : NULL;
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

/* The kernel leaves out the descriptors for which we have no number left. */
static struct ht_err *take_fds(struct msghdr *header, const bool has_fd[WORKER_FDS_MAX],
	const char *what, int ret_fd[WORKER_FDS_MAX])
{
	const struct cmsghdr *rights = CMSG_FIRSTHDR(header);
	size_t count = rights ? (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
	size_t at = 0;
	bool all = true;

	for (size_t i = 0; i < WORKER_FDS_MAX; i++) {
		if (has_fd[i] && at < count)
			memcpy(&ret_fd[i], CMSG_DATA(rights) + at++ * sizeof(int), sizeof(int));
		all &= has_fd[i] == (ret_fd[i] >= 0);
	}
	return all ? NULL : ht_err_sys(EMFILE, "%s: cannot get descriptors from the worker", what);
}

static void forget_fds(struct worker_reply *reply)
{
	for (size_t i = 0; i < WORKER_FDS_MAX; i++) {
		if (reply->fd[i] >= 0)
			close(reply->fd[i]);
		reply->fd[i] = -1;
	}
}

/* Each message takes the place of the one before. */
static struct ht_err *take_message(
	int fd, const char *what, struct worker_reply *ret, bool *ret_last)
{
	struct message message;
	union fd_control control;
	struct iovec iov = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr header = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space)};
	ssize_t got;
	do
		got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
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
	err = ht_err_first(err, take_fds(&header, message.has_fd, what, ret->fd));
	if (message.last)
		return err;
	/* They come once more. */
	ht_err_free(err);
	return NULL;
}

/* Not SIGKILL, which cannot be put off. */
static const int death_signal = SIGUSR1;
static unsigned death_put_off;

static void mask_death(int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, death_signal);
	sigprocmask(how, &set, NULL);
}

void worker_put_off_death(void)
{
	if (death_put_off++ == 0)
		mask_death(SIG_BLOCK);
}

void worker_resume_death(void)
{
	if (--death_put_off == 0)
		mask_death(SIG_UNBLOCK);
}

/* What kills the daemon's process group, such as timeout(1), must not hit us beside it. */
static void die_with_parent(void)
{
	setpgid(0, 0);
	signal(death_signal, SIG_DFL);
	mask_death(SIG_UNBLOCK);
	prctl(PR_SET_PDEATHSIG, death_signal);
}

#define AWAIT_NS 200000 /* a look takes the core from who is to stop there */

static void expect_stops(void)
{
	sigset_t stops;
	/* Ignored, it is not sent for a stop. */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&stops);
	sigaddset(&stops, SIGCHLD);
	sigprocmask(SIG_BLOCK, &stops, NULL);
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

/* Milliseconds until the deadline, rounded up: poll must not spin in the last one. */
static int poll_timeout_ms(uint64_t deadline_mono_ns)
{
	uint64_t now = clock_mono_ns();
	if (now >= deadline_mono_ns)
		return 0;
	return (int)((deadline_mono_ns - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS);
}

static bool wait_readable(int fd, uint64_t deadline_mono_ns)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	for (;;) {
		int timeout = poll_timeout_ms(deadline_mono_ns);
		int n = poll(&wait, 1, timeout);
		if (n > 0)
			return true;
		if (n == 0 && timeout == 0)
			return false;
	}
}

/* Who stops it does not mean the thread of the target that it may hold: that would wait as long. */
static void keep_running(int pidfd)
{
	siginfo_t info = {0};
	if (waitid(P_PIDFD, (id_t)pidfd, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid)
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGCONT, NULL, 0);
}

/* What it says is read then: woken for each word we would take the core from the thread that it
 * holds. */
static void wait_for_end(pid_t child, uint64_t deadline_mono_ns)
{
	int fd = (int)syscall(SYS_pidfd_open, child, 0);
	if (fd < 0)
		return;
	while (clock_mono_ns() < deadline_mono_ns) {
		uint64_t look_ns = clock_mono_ns() + MOVE_NS;
		if (wait_readable(fd, look_ns < deadline_mono_ns ? look_ns : deadline_mono_ns))
			break;
		keep_running(fd);
		priority_spare(child);
	}
	close(fd);
}

/* One that waits for a file system's server may not even die of SIGKILL: it is left to init. */
static void reap(pid_t child, bool is_late)
{
	uint64_t end_ns = clock_mono_ns() + DEATH_PATIENCE_NS;
	for (;;) {
		pid_t got = waitpid(child, NULL, is_late ? WNOHANG : 0);
		if (got == child || (got < 0 && errno != EINTR))
			return;
		if (got == 0 && clock_mono_ns() > end_ns)
			return;
		if (got == 0)
			clock_sleep_ns(CLOCK_NS_PER_MS);
	}
}

struct ht_err *worker_run(const char *what, uint64_t deadline_mono_ns,
	struct ht_err *(*job)(void *context, struct worker_reply *reply), void *context,
	struct worker_reply *ret)
{
	int pair[2];
	*ret = WORKER_NO_REPLY;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ht_err_sys(errno, "%s: cannot make a socket pair", what);
	pid_t parent = getpid();
	pid_t child = fork();
	if (child < 0) {
		int sys = errno;
		close(pair[0]);
		close(pair[1]);
		return ht_err_sys(sys, "%s: cannot fork", what);
	}
	if (child == 0) {
		close(pair[0]);
		child_main(pair[1], parent, job, context);
	}
	close(pair[1]);
	ret->begun = true;
	wait_for_end(child, deadline_mono_ns);
	struct ht_err *err = NULL;
	bool is_late = false;
	for (bool last = false; !err && !last;) {
		if (wait_readable(pair[0], deadline_mono_ns)) {
			err = take_message(pair[0], what, ret, &last);
			continue;
		}
		kill(child, SIGKILL);
		is_late = true;
		err = ht_err_new(HT_ERR_REFUSED,
			"%s: not done in time (a thread in an uninterruptible call, a frozen "
			"control group?); try again",
			what);
	}
	close(pair[0]);
	reap(child, is_late);
	return err;
}
