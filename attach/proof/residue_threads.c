/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/residue_state.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "attach/thread/proc_where.h"

#define MASK_TURNS 100
#define MASKS_NS   (10 * CLOCK_NS_PER_S)

/* Does the mask block every signal except the two that the C library uses itself (and those that
 * cannot be blocked)? A thread has such a mask only while it begins or ends a thread. */
static bool mask_is_passing(uint64_t blocked)
{
	const uint64_t kill_stop_and_libc = 1ull << 8 | 1ull << 18 | 3ull << 31;
	return (blocked | kill_stop_and_libc) == UINT64_MAX;
}

/* Some calls replace the signal mask until they return. */
static bool mask_is_borrowed(const struct proc *proc, pid_t tid)
{
	struct proc_syscall call;
	if (ht_err_drop(proc_syscall_read(proc, tid, &call)) || call.where != PROC_IN_SYSCALL)
		return false;
	switch (call.nr) {
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_io_pgetevents:
	case SYS_io_uring_enter:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
		return true;
	default:
		return false;
	}
}

/* Any other error says nothing about whether the thread has ended. */
static bool is_gone(const struct ht_err *err)
{
	return err && (err->code == HT_ERR_TARGET_GONE || err->sys == ENOENT);
}

static struct ht_err *take_thread(const struct proc *proc, pid_t tid, struct residue *residue)
{
	struct proc_status status;
	struct ht_err *err = proc_status(proc, tid, &status);
	if (is_gone(err)) {
		ht_err_free(err);
		return NULL;
	}
	if (err)
		return err;
	residue->thread[residue->thread_count++] = (struct thread_signals){.tid = tid,
		.blocked = status.sig_blk,
		.unstable = mask_is_passing(status.sig_blk) || mask_is_borrowed(proc, tid)};
	return NULL;
}

struct ht_err *residue_take_threads(const struct proc *proc, struct residue *residue)
{
	HT_CLEANUP(proc_tids_deinit) struct proc_tids tids = {0};
	HT_TRY(proc_tids_read(proc, &tids));
	residue->thread = calloc(tids.count + 1, sizeof(*residue->thread));
	if (!residue->thread)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu threads", tids.count);
	for (size_t i = 0; i < tids.count; i++)
		HT_TRY(take_thread(proc, tids.tid[i], residue));
	return NULL;
}

void residue_look_at_threads(struct residue *residue, const struct proc *proc)
{
	for (size_t i = 0; i < residue->thread_count; i++) {
		struct thread_signals *thread = &residue->thread[i];
		struct proc_status status;
		bool gone = ht_err_drop(proc_status(proc, thread->tid, &status));
		thread->unstable |= !gone && status.sig_blk != thread->blocked;
	}
}

static bool thread_equal(
	const struct proc *proc, const struct thread_signals *before, struct residue_report *report)
{
	struct proc_status status;
	struct ht_err *err = proc_status(proc, before->tid, &status);
	if (err) {
		bool gone = is_gone(err);
		if (!gone)
			residue_say(report->threads, "thread %d could not be read: %s", before->tid,
				err->message);
		ht_err_free(err);
		return gone;
	}
	if (status.tracer != 0) {
		residue_say(
			report->threads, "thread %d is traced by %d", before->tid, status.tracer);
		return false;
	}
	if (before->unstable)
		return true;
	/* A thread that was seen in a signal handler had the handler's signals blocked; the handler
	 * may have returned since, so fewer blocked signals are no difference if the program
	 * handles those signals. */
	uint64_t more = status.sig_blk & ~before->blocked, less = before->blocked & ~status.sig_blk;
	if ((more || less & ~status.sig_cgt) && !mask_is_borrowed(proc, before->tid)) {
		residue_say(report->signals, "thread %d: blocked signals were %lx, now %lx",
			before->tid, (unsigned long)before->blocked, (unsigned long)status.sig_blk);
		return false;
	}
	return true;
}

/*
 * Has the thread run since `*ran_ns`, its CPU time at the last look (0 at first)? Updates
 * `*ran_ns`. A thread that waits for a core has not moved; nor has a thread whose posix_spawn child
 * waits for a core: all signals are blocked until the child execs. A thread that has ended needs no
 * turn: true.
 */
static bool has_had_a_turn(const struct proc *proc, pid_t tid, uint64_t *ran_ns)
{
	struct proc_status status = {0};
	uint64_t before_ns = *ran_ns;
	ht_err_free(proc_status(proc, tid, &status));
	*ran_ns = proc_ran_ns(proc, tid);
	bool waits = status.state == 'R' || status.state == 'D';
	return !waits || *ran_ns == 0 || *ran_ns != before_ns;
}

/* On a busy machine heaptap may look twice in a second in which the thread ran once: a garbage
 * collector that blocks a signal while it works has it blocked at both looks. So the thread must
 * have had several turns. */
static bool has_lasted(uint64_t since_ns, unsigned turns)
{
	uint64_t lasted_ns = clock_mono_ns() - since_ns;
	return lasted_ns > MASKS_NS || (lasted_ns > RESIDUE_SETTLE_NS && turns >= MASK_TURNS);
}

/* Signal dispositions are not compared: the agent cannot change one, and programs do (the first
 * pthread_create, for one). Threads block signals for moments, also in pthread_create: only a
 * difference that lasts counts. */
void residue_compare_threads(
	const struct residue *residue, const struct proc *proc, struct residue_report *report)
{
	uint64_t since_ns = clock_mono_ns();
	for (size_t i = 0; i < residue->thread_count; i++) {
		uint64_t ran_ns = 0;
		unsigned turns = 0;
		while (!thread_equal(proc, &residue->thread[i], report)) {
			turns += has_had_a_turn(proc, residue->thread[i].tid, &ran_ns);
			if (has_lasted(since_ns, turns))
				return;
			clock_sleep_ns(CLOCK_NS_PER_MS);
		}
		residue_say(report->threads, "equal");
		residue_say(report->signals, "equal");
	}
}
