/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/recover.h"
#include "attach/target/clock.h"

#define PATIENCE_NS    (600 * CLOCK_NS_PER_S)
#define RETRY_PAUSE_NS (100 * CLOCK_NS_PER_MS)

enum message_kind { MESSAGE_SLACK = 1, MESSAGE_IMAGE, MESSAGE_DONE };

struct message {
	uint32_t kind;
	struct remote_slack slack;
};

union fd_control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

static struct ht_err *tell(struct guardian *guardian, const struct message *message, int fd)
{
	union fd_control control = {0};
	struct iovec iov = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	if (fd >= 0) {
		header.msg_control = control.space;
		header.msg_controllen = sizeof(control.space);
		struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
	}
	if (sendmsg(guardian->fd, &header, MSG_NOSIGNAL) < 0)
		return ht_err_sys(errno, "cannot tell the guardian process");
	return NULL;
}

struct ht_err *guardian_tell_slack(struct guardian *guardian, const struct remote_slack *slack)
{
	struct message message = {.kind = MESSAGE_SLACK, .slack = *slack};
	return tell(guardian, &message, -1);
}

struct ht_err *guardian_tell_image(struct guardian *guardian, int memfd)
{
	struct message message = {.kind = MESSAGE_IMAGE};
	return tell(guardian, &message, memfd);
}

/* --- the guardian itself
 * ------------------------------------------------------------------------------ */

struct watch {
	bool done, has_slack;
	struct remote_slack slack;
	int memfd;
};

/* False when the daemon is gone. */
static bool hear(int fd, struct watch *watch)
{
	struct message message;
	union fd_control control;
	struct iovec iov = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr header = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space)};
	ssize_t got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);

	if (got < 0 && errno == EINTR)
		return true;
	if (got != (ssize_t)sizeof(message))
		return false;
	const struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
	if (rights && rights->cmsg_type == SCM_RIGHTS)
		memcpy(&watch->memfd, CMSG_DATA(rights), sizeof(watch->memfd));
	if (message.kind == MESSAGE_SLACK) {
		watch->slack = message.slack;
		watch->has_slack = true;
	}
	watch->done |= message.kind == MESSAGE_DONE;
	return true;
}

static void ignore_signals(void)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGTSTP, SIGTTIN,
		SIGTTOU, SIGUSR1, SIGUSR2};
	sigset_t none;

	for (size_t i = 0; i < HT_ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The daemon's terminal and pipes must not be kept open by us: who waits for their end would hang.
 */
static void leave_terminal(void)
{
	setsid();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
}

/* A busy machine may keep threads from being proven outside for long: nobody else will try again.
 */
static void finish_detach(const struct proc *proc, const struct watch *watch)
{
	uint64_t end_ns = clock_mono_ns() + PATIENCE_NS;
	bool again = true;

	while (again && clock_mono_ns() < end_ns) {
		struct recover_report report;
		struct ht_err *err = recover_run(
			proc, watch->memfd, watch->has_slack ? &watch->slack : NULL, &report);
		again = err ? err->code != HT_ERR_TARGET_GONE
			    : report.outcome == RECOVER_INCOMPLETE;
		ht_err_free(err);
		if (again)
			clock_sleep_ns(RETRY_PAUSE_NS);
	}
}

static void guardian_main(int fd, const struct proc *proc)
{
	struct watch watch = {.memfd = -1};

	leave_terminal();
	ignore_signals();
	prctl(PR_SET_NAME, "heaptap-guard");
	while (hear(fd, &watch))
		;
	if (!watch.done)
		finish_detach(proc, &watch);
	_exit(0);
}

struct ht_err *guardian_start(const struct proc *proc, struct guardian *ret)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ht_err_sys(errno, "cannot make a socket pair for the guardian process");
	pid_t pid = fork();
	if (pid < 0) {
		int sys = errno;
		close(pair[0]);
		close(pair[1]);
		return ht_err_sys(sys, "cannot fork the guardian process");
	}
	if (pid == 0) {
		close(pair[0]);
		guardian_main(pair[1], proc);
	}
	close(pair[1]);
	*ret = (struct guardian){.fd = pair[0], .pid = pid};
	return NULL;
}

void guardian_dismiss(struct guardian *guardian)
{
	struct message message = {.kind = MESSAGE_DONE};

	if (guardian->fd < 0)
		return;
	ht_err_free(tell(guardian, &message, -1));
	close(guardian->fd);
	guardian->fd = -1;
	while (waitpid(guardian->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void guardian_leave(struct guardian *guardian)
{
	if (guardian->fd >= 0)
		close(guardian->fd);
	guardian->fd = -1;
}
