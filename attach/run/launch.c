/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/launch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/helper/inherited.h"
#include "attach/helper/worker.h"
#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"
#include "attach/jobs/command.h"
#include "attach/thread/proc_where.h"
#include "attach/thread/regs.h"
#include "format/helper.h"

/* Long enough for a program with many libraries on a slow disk, or one that is stopped (Ctrl-Z) as
 * it starts. */
#define PATIENCE_NS (600 * CLOCK_NS_PER_S)

/* The longest wait for an exec and for a dynamic linker. */
#define HOLD_NS (10 * CLOCK_NS_PER_S)

#define TRIES 3u

/* A process that was killed is dead after this time. */
#define DYING_NS (100 * CLOCK_NS_PER_MS)

static const uint8_t go_ahead = 1;

/* --- the child
 * ------------------------------------------------------------------------------------------ */

_Noreturn static void child_main(int fd, char *const argv[], pid_t parent)
{
	uint8_t word = 0;

	inherited_give_back_descriptors();
	/* Yama may let only ancestors trace; heaptap's helpers are no ancestors of the command. */
	prctl(PR_SET_PTRACER, parent, 0, 0, 0);
	ssize_t got;
	do
		got = recv(fd, &word, sizeof(word), 0);
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof(word))
		_exit(1);
	int why = command_exec(argv);
	(void)!send(fd, &why, sizeof(why), MSG_NOSIGNAL);
	_exit(1);
}

struct ht_err *launch_fork(char *const argv[], struct launch *ret)
{
	pid_t parent = getpid();

	*ret = (struct launch){.fd = -1};
	struct ht_err *err = helper_fork_pair("the command", &ret->pid, &ret->fd);
	if (!err && ret->pid == 0)
		child_main(ret->fd, argv, parent);
	if (err)
		*ret = (struct launch){.fd = -1};
	return err;
}

/* --- to its start, and from there
 * ------------------------------------------------------------------------------------------- */

struct job {
	const struct launch *launch;
	pid_t parent;
};

struct held {
	enum follow_result result;
	struct follow_wait wait;
};

struct outcome {
	bool parked;
	struct park park;
};

static struct ht_err *exec_job(void *context, struct worker_reply *reply)
{
	const struct job *job = context;
	struct outcome *outcome = (struct outcome *)reply->data;
	struct ht_err *err = park_seize(job->launch->pid);
	/* A signal ended the child before it began. */
	if (err && err->code == HT_ERR_TARGET_GONE) {
		ht_err_free(err);
		return NULL;
	}
	if (!err && send(job->launch->fd, &go_ahead, sizeof(go_ahead), MSG_NOSIGNAL) < 0 &&
		errno != EPIPE && errno != ECONNRESET)
		err = ht_err_sys(errno, "cannot start the command");
	HT_THEN(err,
		park_at_start(job->launch->pid, job->parent, &outcome->park, &outcome->parked));
	return err;
}

/* The child sends the reason before it ends, and nothing when it has become the program. */
static void hear_why(struct launch *launch)
{
	int why;
	if (recv(launch->fd, &why, sizeof(why), MSG_DONTWAIT) == (ssize_t)sizeof(why))
		launch->exec_errno = why;
	close(launch->fd);
	launch->fd = -1;
}

struct ht_err *launch_exec(struct launch *launch)
{
	struct job job = {.launch = launch, .parent = getpid()};
	struct worker_reply reply;
	struct outcome outcome;
	HT_TRY(worker_run(
		"starting the command", clock_mono_ns() + PATIENCE_NS, exec_job, &job, &reply));
	memcpy(&outcome, reply.data, sizeof(outcome));
	launch->park = outcome.park;
	launch->waits = outcome.parked;
	hear_why(launch);
	return NULL;
}

/* The worker sends this before it releases the thread: if it dies after that, the parent must not
 * believe that the command still waits. */
static struct ht_err *tell_last(void *context)
{
	struct worker_reply *reply = context;
	reply->data[0] = true;
	return worker_hand_over(reply);
}

static struct ht_err *leave_job(void *context, struct worker_reply *reply)
{
	const struct launch *launch = context;
	struct ht_err *err = park_leave(launch->pid, &launch->park, tell_last, reply);
	reply->data[0] = !err;
	return err;
}

/* Kills the command and waits for its end; does not reap it. */
static void end_it(const struct launch *launch)
{
	siginfo_t info;
	int failed;

	kill(launch->pid, SIGKILL);
	do
		failed = waitid(P_PID, (id_t)launch->pid, &info, WEXITED | WNOWAIT);
	while (failed && errno == EINTR);
}

/* Does the command run: is it alive, and no longer where it waited? The worker may have died before
 * it reported that it let the command go. If the worker failed, the command is dead. */
static bool runs(const struct launch *launch)
{
	siginfo_t info = {0};
	struct proc proc;
	struct proc_syscall call = {.where = PROC_THREAD_GONE};

	for (uint64_t end_ns = clock_mono_ns() + DYING_NS; clock_mono_ns() < end_ns;) {
		if (waitid(P_PID, (id_t)launch->pid, &info, WEXITED | WNOWAIT | WNOHANG) < 0 ||
			info.si_pid)
			return false;
		clock_sleep_ns(CLOCK_NS_PER_MS);
	}
	struct ht_err *err = proc_open(launch->pid, &proc);
	if (!err) {
		err = proc_syscall_read(&proc, launch->pid, &call);
		proc_close(&proc);
	}
	bool waits = call.where == PROC_IN_SYSCALL && call.nr == SYS_pause &&
		     call.pc == launch->park.call + REGS_SYSCALL_BYTES;
	bool told = !err && call.where != PROC_THREAD_GONE;
	ht_err_free(err);
	return told && !waits;
}

struct ht_err *launch_let_go(struct launch *launch)
{
	struct worker_reply reply;
	struct ht_err *err = worker_run(
		"starting the command", clock_mono_ns() + PATIENCE_NS, leave_job, launch, &reply);
	launch->waits = !reply.data[0] && !runs(launch);
	if (!launch->waits) {
		ht_err_free(err);
		return NULL;
	}
	launch->failed = err->code != HT_ERR_TARGET_GONE;
	end_it(launch);
	return err;
}

/* --- the program that it becomes
 * -------------------------------------------------------------------------------------------- */

static struct ht_err *hold_job(void *context, struct worker_reply *reply)
{
	struct held held = {0};
	struct ht_err *err = follow_exec(context, &held.wait, &held.result);
	memcpy(reply->data, &held, sizeof(held));
	return err;
}

void launch_hold(struct launch *launch, const struct follow_ask *ask)
{
	struct worker_reply reply;
	struct held held;
	ht_err_free(worker_run(
		"following the command", clock_mono_ns() + HOLD_NS, hold_job, (void *)ask, &reply));
	memcpy(&held, reply.data, sizeof(held));
	launch->followed = held.result;
	launch->wait = held.wait;
}

static struct ht_err *wake_job(void *context, struct worker_reply *reply)
{
	const struct launch *launch = context;
	bool waited;
	struct ht_err *err = follow_leave(launch->pid, &launch->wait, &waited);
	reply->data[0] = !err && waited;
	return err;
}

void launch_leave(struct launch *launch)
{
	struct worker_reply reply;
	if (launch->followed != FOLLOW_WAITS)
		return;
	ht_err_free(worker_run(
		"starting the command", clock_mono_ns() + PATIENCE_NS, wake_job, launch, &reply));
	launch->late = !reply.data[0];
	launch->followed = FOLLOW_NOTHING;
}

/* --- its end
 * --------------------------------------------------------------------------------------------- */

static void collect(struct launch *launch, int options)
{
	int status;
	pid_t got;

	if (launch->ended)
		return;
	do
		got = waitpid(launch->pid, &status, options);
	while (got < 0 && errno == EINTR);
	launch->ended = got == launch->pid;
	if (launch->ended)
		launch->status = status;
}

bool launch_has_stopped(const struct launch *launch)
{
	siginfo_t info = {0};
	return !launch->ended && waitid(P_PID, (id_t)launch->pid, &info, WSTOPPED | WNOHANG) == 0 &&
	       info.si_pid == launch->pid;
}

void launch_look(struct launch *launch)
{
	collect(launch, WNOHANG);
}

void launch_deinit(struct launch *launch)
{
	bool begun = launch->fd < 0 && !launch->waits;
	if (launch->pid > 0 && !launch->ended && !begun) {
		kill(launch->pid, SIGKILL);
		for (unsigned tries = 0; !launch->ended && tries < TRIES; tries++)
			collect(launch, 0);
	}
	if (launch->fd >= 0)
		close(launch->fd);
	launch->fd = -1;
	launch->waits = false;
}
