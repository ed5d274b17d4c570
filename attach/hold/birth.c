/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold/birth.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "attach/hold/rights.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "attach/thread/stops.h"
#include "attach/thread/tracee.h"

/* The thread in its guard waits for heaptap until it has made its child. What it does before that
 * (handlers of pthread_atfork, a pipe) is short; if it is not, heaptap lets it go. */
#define PARENT_NS    (5 * CLOCK_NS_PER_S)
#define PARENT_CALLS 500u

/* A child that is to exec another program does so soon, after few calls. By the clock that may take
 * seconds, as a busy machine may give it no core: its own CPU time is limited more tightly, by
 * CHILD_RUNS_NS. */
#define CHILD_NS       (5 * CLOCK_NS_PER_S)
#define CHILD_CALLS    5000u
#define CHILD_RUNS_NS  (30 * CLOCK_NS_PER_MS)
#define CHILD_RESTS_NS (50 * CLOCK_NS_PER_MS)

enum seen {
	SEEN_CALL,  /* the thread is about to make a system call, or has made one */
	SEEN_BIRTH, /* the thread has made a child */
	SEEN_EXEC,
	SEEN_FIRST, /* the first stop of a new child */
	SEEN_END,
	SEEN_LATE, /* the time is over; the thread runs, and is still traced */
	SEEN_LEFT, /* the thread was released */
};

/* The traced thread, and the time limit. */
struct patience {
	pid_t tid;
	const struct proc *child; /* NULL: the traced thread is the one that makes the child */
	uint64_t end_ns;
};

/* Does the child compute, or wait for something? Then it does what it was forked for, and will not
 * exec soon. */
static bool has_settled(const struct proc *child, uint64_t waited_ns)
{
	struct proc_status status;
	if (proc_ran_ns(child, child->pid) > CHILD_RUNS_NS)
		return true;
	if (waited_ns < CHILD_RESTS_NS)
		return false;
	return !ht_err_drop(proc_status(child, child->pid, &status)) && status.state == 'S';
}

/* Waits for the next stop, within the time limit. A thread that still runs then is released by the
 * death of its tracer, which does not disturb a call in which it waits. */
static struct ht_err *await(const struct patience *of, int *ret_status, bool *ret_late)
{
	uint64_t since_ns = clock_mono_ns();
	for (;;) {
		pid_t got = tracee_wait(of->tid, WNOHANG, ret_status);
		if (got < 0 && errno != EINTR)
			return ht_err_sys(errno, "cannot wait for process %d", of->tid);
		uint64_t now = clock_mono_ns();
		bool late =
			got <= 0 &&
			(now > of->end_ns || (of->child && has_settled(of->child, now - since_ns)));
		/* If this worker's end released the thread in a stop, the thread's call would
		 * return EINTR: look once more whether it has stopped meanwhile. */
		if (late)
			got = tracee_wait(of->tid, WNOHANG, ret_status);
		*ret_late = late && got <= 0;
		if (got > 0 || late)
			return NULL;
		clock_sleep_ns(clock_pause_ns(since_ns));
	}
}

static struct ht_err *leave(pid_t tid, int sig, enum seen *ret)
{
	*ret = SEEN_LEFT;
	return stops_detach(tid, sig);
}

/* The kernel drops a signal that has no handler, and wakes no thread for it; but it wakes a traced
 * thread. Keep such a signal from ending the thread's call. Best effort: the thread may have been
 * killed. */
static void spare_call(pid_t tid)
{
	struct user_regs_struct regs;
	struct ht_err *err = stops_get_regs(tid, &regs);
	if (!err && tracee_hide_eintr(&regs))
		err = stops_set_regs(tid, &regs);
	ht_err_free(err);
}

/* Runs the thread to its next stop that matters. A stop of the whole process comes from another
 * process, which may want to trace the thread itself: release it. Release it also before it ends
 * (FOLLOW_OPTIONS). */
static struct ht_err *go(const struct patience *of, bool resume, enum seen *ret)
{
	pid_t tid = of->tid;
	for (int sig = 0;; resume = true) {
		int status = 0;
		bool late;
		struct ht_err *err = resume ? stops_resume(tid, PTRACE_SYSCALL, sig) : NULL;
		HT_THEN(err, await(of, &status, &late));
		if (err)
			return err;
		*ret = SEEN_LATE;
		if (late)
			return NULL;
		*ret = SEEN_END;
		if (!WIFSTOPPED(status))
			return NULL;
		sig = WSTOPSIG(status);
		int event = status >> 16;
		if (event == PTRACE_EVENT_STOP && sig != SIGTRAP)
			return leave(tid, 0, ret);
		if (event == PTRACE_EVENT_EXIT) {
			err = leave(tid, 0, ret);
			*ret = SEEN_END;
			return err;
		}
		*ret = event == PTRACE_EVENT_EXEC   ? SEEN_EXEC
		       : event == PTRACE_EVENT_STOP ? SEEN_FIRST
		       : event			    ? SEEN_BIRTH
						    : SEEN_CALL;
		if (event || sig == STOPS_SYSCALL)
			return NULL;
		if (sig == SIGSTOP || sig == SIGTRAP)
			return leave(tid, sig, ret);
		spare_call(tid);
	}
}

/* --- the thread that makes the child --- */

static struct ht_err *go_to_fork(const struct follow_ask *ask,
	void (*born)(void *context, pid_t pid), void *context, pid_t *ret)
{
	const struct patience of = {.tid = ask->tid, .end_ns = clock_mono_ns() + PARENT_NS};
	for (unsigned calls = 0; calls < PARENT_CALLS; calls++) {
		unsigned long pid = 0;
		enum seen seen;
		struct ht_err *err = go(&of, true, &seen);
		if (err || seen == SEEN_END || seen == SEEN_LATE || seen == SEEN_LEFT)
			return err;
		if (seen != SEEN_BIRTH)
			continue;
		if (ptrace(PTRACE_GETEVENTMSG, ask->tid, NULL, &pid) < 0)
			return ht_err_sys(
				errno, "cannot send to the child of process %d", ask->tid);
		*ret = (pid_t)pid;
		born(context, *ret);
		break;
	}
	follow_answer(ask);
	return stops_detach(ask->tid, 0);
}

/* --- the child --- */

/* Would tracing change what this call of the child does, or does the call make a child or a thread?
 * Then heaptap releases the child and attaches soon. */
static bool is_affected(const struct proc *child, const struct user_regs_struct *regs)
{
	long nr = regs_call(regs);
	bool at = nr == SYS_execveat;
	if (nr == SYS_execve || at)
		return !rights_allow_exec(child, child->pid, regs, at);
	return nr == SYS_ptrace || nr == SYS_seccomp || nr == SYS_clone || nr == SYS_clone3 ||
	       nr == SYS_fork || nr == SYS_vfork ||
	       (nr == SYS_prctl && regs_arg(regs, 0) == PR_SET_SECCOMP);
}

static struct ht_err *judge_call(const struct proc *child, enum seen *seen)
{
	struct user_regs_struct regs;
	struct __ptrace_syscall_info info = {0};
	if (ptrace(PTRACE_GET_SYSCALL_INFO, child->pid, sizeof(info), &info) < 0)
		return leave(child->pid, 0, seen);
	if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return NULL;
	HT_TRY(stops_get_regs(child->pid, &regs));
	if (is_affected(child, &regs))
		HT_TRY(leave(child->pid, 0, seen));
	return NULL;
}

static struct ht_err *go_to_exec(const struct proc *child, enum seen *ret)
{
	const struct patience of = {child->pid, child, clock_mono_ns() + CHILD_NS};
	struct ht_err *err = go(&of, false, ret);
	if (err || *ret != SEEN_FIRST)
		return err;
	/* The child's own children are not traced: this replaces the options that it inherited from
	 * its parent. */
	if (ptrace(PTRACE_SETOPTIONS, child->pid, NULL, (void *)FOLLOW_OPTIONS) < 0)
		return leave(child->pid, 0, ret);
	for (unsigned calls = 0; calls < CHILD_CALLS; calls++) {
		err = go(&of, true, ret);
		if (!err && *ret == SEEN_CALL)
			err = judge_call(child, ret);
		if (err || (*ret != SEEN_CALL && *ret != SEEN_FIRST))
			return err;
	}
	return leave(child->pid, 0, ret);
}

/* Makes the child's new program wait at its start. Not with a seccomp filter, which it may have
 * inherited: the filter would see the call in which it is to wait. */
static struct ht_err *meet(pid_t pid, struct birth *ret)
{
	struct proc_status status;
	bool waits = false;
	struct ht_err *err = proc_status_of(pid, &status);
	if (!err && !status.seccomp)
		err = follow_meet(pid, &ret->wait, &waits);
	/* The attach to this process meets the same error again, and reports it. */
	ht_err_free(err);
	ret->result = waits ? FOLLOW_WAITS : FOLLOW_BEGAN;
	return stops_detach(pid, 0);
}

static struct ht_err *follow_child(struct birth *ret)
{
	HT_CLEANUP(proc_close) struct proc child = {0};
	enum seen seen = SEEN_LEFT;
	struct ht_err *err = proc_open(ret->pid, &child);
	HT_THEN(err, proc_open_mem(&child));
	HT_THEN(err, go_to_exec(&child, &seen));
	ret->ended = seen == SEEN_END;
	return !err && seen == SEEN_EXEC ? meet(ret->pid, ret) : err;
}

struct ht_err *birth_follow(const struct follow_ask *ask, void (*born)(void *context, pid_t pid),
	void *context, struct birth *ret)
{
	bool is_held;
	*ret = (struct birth){.result = FOLLOW_NOTHING};
	struct ht_err *err = follow_take(ask,
		PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXIT |
			PTRACE_O_TRACESYSGOOD,
		&is_held);
	if (!err && is_held)
		err = go_to_fork(ask, born, context, &ret->pid);
	return err || !ret->pid ? err : follow_child(ret);
}
