/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/control/place.h"
#include "attach/daemon/runstate.h"
#include "attach/helper/message.h"
#include "attach/helper/priority.h"
#include "attach/helper/pulse.h"
#include "attach/memory/slow.h"
#include "attach/memory/stalled.h"
#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/process/proc_open.h"
#include "attach/undo/children.h"
#include "format/helper.h"

#define PATIENCE_NS    (600 * CLOCK_NS_PER_S)
#define RETRY_PAUSE_NS (100 * CLOCK_NS_PER_MS)
#define RETRY_SHARE    16u /* a pause is 1/16 of the time since the first look */

/* The daemon is ended when this many looks in a row find it in the same read. */
#define LOOK_MS	      500
#define LOOKS_MAX     20u
#define DEATH_WAIT_MS 10000

#define WORKERS_WAIT_NS (3 * CLOCK_NS_PER_S)
#define WORKERS_LOOK_MS 100

#define ANSWER_WAIT_MS 10000u
#define ANSWER_STEP_MS 100u
#define FAILURES_MAX   10u /* in a row after the daemon's death: stops listening */

enum message_kind { MESSAGE_SLACK = 1, MESSAGE_IMAGE, MESSAGE_DONE, MESSAGE_LINGER };

struct message {
	uint32_t kind;
	union {
		struct remote_slack slack;
		struct linger_plan plan;
	};
};

/* How the guardian answers a message. `whole`: false if the descriptor that belongs to the message
 * did not arrive. */
struct answer {
	uint32_t kind;
	bool whole;
};

static struct ht_err *tell(struct guardian *guardian, const struct message *message, int fd)
{
	return message_send(guardian->fd, message, sizeof(*message), &fd, fd >= 0, 0) < 0
		       ? ht_err_sys(errno, "cannot send to the guardian process")
		       : NULL;
}

static struct ht_err *judge_answer(const struct answer *answer)
{
	if (answer->whole)
		return NULL;
	return ht_err_new(HT_ERR_REFUSED, "the guardian process has no free descriptor; raise the "
					  "limit of heaptap's own descriptors (ulimit -n)");
}

/* Waits up to ANSWER_WAIT_MS, since the guardian may be stopped or get no processor time. Only time
 * in which this process itself ran counts. */
static struct ht_err *wait_for_answer(
	struct guardian *guardian, uint32_t kind, struct priority_cores *cores)
{
	struct answer answer = {0};
	struct pollfd wait = {.fd = guardian->fd, .events = POLLIN};

	for (unsigned waited_ms = 0; waited_ms < ANSWER_WAIT_MS; waited_ms += ANSWER_STEP_MS) {
		int ready = poll(&wait, 1, ANSWER_STEP_MS);
		ssize_t got =
			ready > 0 ? recv(guardian->fd, &answer, sizeof(answer), MSG_DONTWAIT) : -1;
		if (got == 0)
			return ht_err_new(HT_ERR_REFUSED, "the guardian process has ended");
		if (got == (ssize_t)sizeof(answer) && answer.kind == kind)
			return judge_answer(&answer);
		if (ready)
			clock_sleep_ns(CLOCK_NS_PER_MS);
		else if (!cores->known)
			*cores = priority_bring(guardian->pid);
	}
	return ht_err_new(HT_ERR_REFUSED,
		"the guardian process has not answered for %u s: it was stopped, or gets no "
		"processor time; try again",
		ANSWER_WAIT_MS / 1000);
}

static struct ht_err *hear_answer(struct guardian *guardian, uint32_t kind)
{
	struct priority_cores cores = {.known = false};
	struct ht_err *err = wait_for_answer(guardian, kind, &cores);
	priority_send_back(guardian->pid, &cores);
	return err;
}

static struct ht_err *tell_and_hear(
	struct guardian *guardian, const struct message *message, int fd)
{
	HT_TRY(tell(guardian, message, fd));
	return hear_answer(guardian, message->kind);
}

struct ht_err *guardian_tell_slack(struct guardian *guardian, const struct remote_slack *slack)
{
	struct message message = {.kind = MESSAGE_SLACK, .slack = *slack};
	return tell_and_hear(guardian, &message, -1);
}

struct ht_err *guardian_tell_image(struct guardian *guardian, int memfd)
{
	struct message message = {.kind = MESSAGE_IMAGE};
	return tell_and_hear(guardian, &message, memfd);
}

struct ht_err *guardian_hand_image(struct guardian *guardian, int memfd)
{
	struct message message = {.kind = MESSAGE_IMAGE};
	return tell(guardian, &message, memfd);
}

/* --- the guardian itself
 * ------------------------------------------------------------------------------ */

struct watch {
	bool done, has_slack;
	struct remote_slack slack;
	struct linger_plan plan; /* empty: nothing to linger for */
	int memfd;
	int fd; /* socket to the daemon */
	pid_t daemon_pid;
	unsigned failures; /* of receiving from the daemon, in a row */

	const uint64_t *pulse; /* the daemon's counter: odd while it reads the target */
	uint64_t pulse_seen;
	unsigned looks; /* looks in a row that found the daemon in the same read */
	int daemon_pidfd;
	int daemon_stat; /* /proc/PID/stat of the daemon, open */
	int terminal;	 /* the daemon's stderr, while it lives; -1: none */
};

/* Best effort: the other end may be closed, or its buffer full. */
static void answer(const struct watch *watch, uint32_t kind, bool whole)
{
	struct answer answer = {.kind = kind, .whole = whole};
	(void)!send(watch->fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A failed receive says nothing about the daemon, and messages may still be in the socket. */
static bool hear_again(struct watch *watch)
{
	bool lives = getppid() == watch->daemon_pid;
	/* ECONNRESET: the daemon died with answers of ours unread; its own messages can be received
	 * now. */
	bool reset = errno == ECONNRESET;
	watch->failures = lives ? 0 : watch->failures + 1;
	if (!reset)
		clock_sleep_ns(RETRY_PAUSE_NS);
	return watch->failures < FAILURES_MAX;
}

/* False: the daemon has closed its end. */
static bool hear(struct watch *watch)
{
	struct message message;
	int fd;
	size_t has_fd = 1;
	ssize_t got = message_receive(watch->fd, &message, sizeof(message), &fd, &has_fd, 0);

	if (got < 0)
		return hear_again(watch);
	if (got != (ssize_t)sizeof(message))
		return false;
	watch->failures = 0;
	if (has_fd) {
		fd_close(&watch->memfd);
		watch->memfd = fd;
	}
	if (message.kind == MESSAGE_SLACK) {
		watch->slack = message.slack;
		watch->has_slack = true;
	}
	if (message.kind == MESSAGE_LINGER)
		watch->plan = message.plan;
	watch->done |= message.kind == MESSAGE_DONE || message.kind == MESSAGE_LINGER;
	/* The descriptor did not arrive if this process had no free number for it. */
	answer(watch, message.kind, has_fd || message.kind != MESSAGE_IMAGE);
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

/*
 * The guardian must not keep the daemon's terminal and pipes open: a process that waits for their
 * end would hang. A signal to the daemon's process group must not hit the guardian, too. setsid
 * would do that as well, but makes a scheduling group (autogroup), which may get no time slice for
 * seconds.
 */
static void leave_terminal(struct watch *watch)
{
	setpgid(0, 0);
	watch->terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	for (int fd = 0; fd < 3; fd++)
		helper_silence(fd);
}

/* --- the daemon hangs
 * ----------------------------------------------------------------------------------- */

/* A daemon that is stopped, or waits for a processor, does not hang. */
static bool is_hanging(struct watch *watch)
{
	uint64_t pulse = watch->pulse ? __atomic_load_n(watch->pulse, __ATOMIC_ACQUIRE) : 0;
	char state = runstate_read(watch->daemon_stat);
	bool same = pulse % 2 && pulse == watch->pulse_seen && (state == 'S' || state == 'D');
	watch->pulse_seen = pulse;
	watch->looks = same ? watch->looks + 1 : 0;
	return watch->looks >= LOOKS_MAX;
}

/* The terminal may be gone: drop a line that does not fit at once. */
static void say(const struct watch *watch, const char *line)
{
	struct pollfd terminal = {.fd = watch->terminal, .events = POLLOUT};
	if (poll(&terminal, 1, 0) == 1 && terminal.revents & POLLOUT)
		(void)!write(watch->terminal, line, strlen(line));
}

static void end_daemon(struct watch *watch)
{
	say(watch, watch->has_slack ? "heaptap: ended by its guardian: the memory of the process "
				      "did not answer for 10 s (a stalled file system?); the "
				      "guardian removes heaptap's code from the process, except "
				      "perhaps one page (see heaptap verify)\n"
				    : "heaptap: ended by its guardian: the memory of the process "
				      "did not answer for 10 s (a stalled file system?); the "
				      "process was not touched\n");
	slow_avoid();
	syscall(SYS_pidfd_send_signal, watch->daemon_pidfd, SIGKILL, NULL, 0);
	/* If the daemon does not die at once, it does nothing more when it wakes. */
	struct pollfd death = {.fd = watch->daemon_pidfd, .events = POLLIN};
	poll(&death, 1, DEATH_WAIT_MS);
}

/* Returns when the daemon is done, or gone. */
static void stand_by(struct watch *watch)
{
	for (;;) {
		struct pollfd wait[] = {{.fd = watch->fd, .events = POLLIN},
			{.fd = watch->daemon_pidfd, .events = POLLIN}};
		int ready = poll(wait, HT_ARRAY_SIZE(wait), LOOK_MS);
		if (ready < 0) {
			clock_sleep_ns(RETRY_PAUSE_NS);
		} else if (ready > 0 && wait[0].revents) {
			if (!hear(watch) || watch->done)
				return;
		} else if (ready > 0) {
			/* Do not wait for the socket's end: a worker of the daemon that cannot die
			 * may hold it open. */
			return;
		}
		if (ready == 0 && is_hanging(watch)) {
			end_daemon(watch);
			return;
		}
	}
}

/*
 * Waits until the daemon's workers have died. A worker dies after the daemon, and only at the end
 * of its current system call, which may be the one that sends a thread to the stub after the
 * guardian has seen that thread elsewhere. The workers have died when no process holds the other
 * end of the socket. A worker that cannot die waits for the target's memory or for a thread, and
 * does nothing after that wait. Messages that are still in the socket are received here.
 */
static void outlive_workers(struct watch *watch)
{
	uint64_t end_ns = clock_mono_ns() + WORKERS_WAIT_NS;

	while (!watch->done && clock_mono_ns() < end_ns) {
		struct pollfd wait = {.fd = watch->fd, .events = POLLIN};
		if (poll(&wait, 1, WORKERS_LOOK_MS) > 0 && !hear(watch))
			return;
	}
}

/* False: the daemon is dead already. */
static bool know_daemon(struct watch *watch, pid_t daemon_pid)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/stat", daemon_pid);
	watch->pulse = pulse_watch();
	watch->daemon_stat = open(path, O_RDONLY | O_CLOEXEC);
	watch->daemon_pidfd = (int)syscall(SYS_pidfd_open, daemon_pid, 0);
	return getppid() == daemon_pid;
}

static bool is_out(const struct proc *proc, const struct recover_options *options)
{
	struct recover_report report;

	if (proc_changed(proc) != PROC_SAME)
		return true;
	/* No other process would end the guardian if it hung. */
	struct ht_err *err = stalled_avoid(proc);
	HT_THEN(err, recover_run(proc, options, &report));
	bool out = !err && report.outcome != RECOVER_INCOMPLETE;
	ht_err_free(err);
	return out;
}

/* A thread that stays inside for a minute may stay for hours, and each look costs milliseconds of a
 * core. */
static uint64_t retry_pause_ns(uint64_t elapsed_ns)
{
	uint64_t pause_ns = elapsed_ns / RETRY_SHARE;
	return pause_ns < RETRY_PAUSE_NS ? RETRY_PAUSE_NS : pause_ns;
}

/* Long patience: on a busy machine the proof may take long, and no other process tries again. */
static void finish_detach(const struct proc *proc, const struct journal *journal, pid_t daemon_pid,
	const struct watch *watch)
{
	uint64_t began_ns = clock_mono_ns(), end_ns = began_ns + PATIENCE_NS;
	const struct recover_options options = {
		.memfd = watch->memfd, .slack = &watch->slack, .own = journal};
	struct children_report children;

	while (!is_out(proc, &options)) {
		uint64_t now_ns = clock_mono_ns();
		if (now_ns > end_ns)
			return;
		clock_sleep_ns(retry_pause_ns(now_ns - began_ns));
	}
	ht_err_free(children_clean(&(struct children_options){.target = proc,
					   .daemon_pid = daemon_pid,
					   .journal = journal,
					   .slack = &watch->slack,
					   .deadline_mono_ns = end_ns},
		&children));
}

/* A process of its own lingers, since a daemon that lives on must not get the end of a child at
 * some later time. The lock is held as long as any process has copies of its descriptors: wait
 * until the new process has closed them. */
static void start_lingering(guardian_linger *linger, const struct linger_plan *plan)
{
	int ready[2];
	char byte;
	if (pipe2(ready, O_CLOEXEC) < 0)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		linger(plan, ready[1]);
		_exit(0);
	}
	close(ready[1]);
	(void)!read(ready[0], &byte, 1);
}

static void guardian_main(int fd, const struct proc *proc, const struct journal *journal,
	pid_t daemon_pid, guardian_linger *linger)
{
	struct watch watch = {.memfd = -1, .fd = fd, .daemon_pid = daemon_pid};

	prctl(PR_SET_NAME, "heaptap-guard");
	ignore_signals();
	leave_terminal(&watch);
	/* If the daemon died before this process ran, its messages are still in the socket. */
	if (know_daemon(&watch, daemon_pid))
		stand_by(&watch);
	outlive_workers(&watch);
	close(watch.terminal);
	/* Without a place for the stub nothing was written to the target. */
	if (!watch.done && watch.has_slack)
		finish_detach(proc, journal, daemon_pid, &watch);
	if (!watch.done)
		place_forget(proc->pid, proc->start_ticks);
	if (watch.plan.count && linger)
		start_lingering(linger, &watch.plan);
	_exit(0);
}

struct ht_err *guardian_start(const struct proc *proc, const struct journal *journal,
	guardian_linger *linger, struct guardian *ret)
{
	pid_t daemon_pid = getpid(), pid;
	int fd;
	HT_TRY(pulse_start());
	HT_TRY(helper_fork_pair("the guardian process", &pid, &fd));
	if (pid == 0)
		guardian_main(fd, proc, journal, daemon_pid, linger);
	*ret = (struct guardian){.fd = fd, .pid = pid};
	return NULL;
}

void guardian_prospect(const struct guardian *guardian, pid_t pid, char *ret, size_t bytes)
{
	const char *sudo = geteuid() ? "sudo " : "";
	struct pollfd end = {.fd = guardian->fd};
	if (guardian->fd >= 0 && poll(&end, 1, 0) <= 0)
		snprintf(ret, bytes,
			"the guardian goes on trying for at most ten minutes; after that, or after "
			"kill -9 %d, `%sheaptap recover -p %d` removes it",
			guardian->pid, sudo, pid);
	else
		snprintf(ret, bytes, "no guardian is left: `%sheaptap recover -p %d` removes it",
			sudo, pid);
}

static bool dismiss(struct guardian *guardian, const struct message *message, uint64_t patience_ns)
{
	if (guardian->fd < 0)
		return true;
	struct ht_err *err = tell(guardian, message, -1);
	/* Without the message the guardian takes the closed socket for the daemon's death, and
	 * begins to detach. */
	bool killed = err && kill(guardian->pid, SIGKILL) == 0;
	ht_err_free(err);
	fd_close(&guardian->fd);
	if (helper_ends_within(guardian->pid, patience_ns))
		return true;
	/* The guardian holds the lock until it is dead. */
	killed |= kill(guardian->pid, SIGKILL) == 0;
	return helper_ends_within(guardian->pid, patience_ns) || killed;
}

bool guardian_dismiss(struct guardian *guardian, uint64_t patience_ns)
{
	const struct message message = {.kind = MESSAGE_DONE};
	return dismiss(guardian, &message, patience_ns);
}

bool guardian_dismiss_to_linger(
	struct guardian *guardian, const struct linger_plan *plan, uint64_t patience_ns)
{
	const struct message message = {.kind = MESSAGE_LINGER, .plan = *plan};
	return dismiss(guardian, &message, patience_ns);
}

void guardian_leave(struct guardian *guardian)
{
	fd_close(&guardian->fd);
}
