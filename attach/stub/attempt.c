/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/helper/priority.h"
#include "attach/stub/recheck.h"
#include "attach/stub/stub_layout.h"
#include "attach/stub/tidoffset.h"
#include "attach/memory/memory.h"
#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_status.h"
#include "attach/process/descriptor.h"
#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "format/abi_control.h"

/* A thread stops when it is next scheduled, which takes a while on a busy machine. If heaptap gives
 * up before, the thread returns EINTR from its call, and no process is left to hide that. */
#define STOP_DEADLINE_NS  (10 * CLOCK_NS_PER_S)
#define READY_DEADLINE_NS (10 * CLOCK_NS_PER_S)
#define STOP_TRIES	  3u
#define HOLD_MS		  50u
#define STUB_RUN_NS	  (200 * CLOCK_NS_PER_MS) /* in addition to the lease */
#define MAPS_NS		  150000u		  /* the least time of the calls that map, */
#define UNMAPS_NS	  60000u		  /* of those that unmap, */
#define CLOSES_NS	  40000u		  /* and of those that close */
#define SLACK_MAX_NS	  100000u
/* An attempt stops the thread once and waits three times, each with a deadline of its own. These
 * must end first: an attempt that ends by itself can report the reason. */
_Static_assert(
	ATTEMPT_DEADLINE_NS >= STOP_DEADLINE_NS + 3 * READY_DEADLINE_NS + 10 * CLOCK_NS_PER_S,
	"the other deadlines end first");

#define NOT_MAPPED INT64_MIN

static bool in_slack(const struct remote_slack *slack, raddr_t pc)
{
	return pc - slack->addr < slack->bytes;
}

static struct ht_err *write_stub(struct attempt *attempt, const struct stub_thread *thread)
{
	struct stub stub;
	raddr_t at = attempt->slack->addr;
	HT_TRY(attempt->map ? stub_make_map(attempt->map, at, thread, &stub)
			    : stub_make_unmap(&attempt->unmap, at, thread, &stub));
	if (stub.length > attempt->slack->bytes)
		return ht_err_new(HT_ERR_INTERNAL, "the attach code does not fit its place");
	HT_TRY(recheck_slack_holds(attempt->proc, attempt->slack, !attempt->map));
	attempt->written = true;
	return memory_write(attempt->proc, at, stub.bytes, stub.length);
}

static raddr_t control_of(const struct attempt *attempt)
{
	return attempt->map->image + ABI_CONTROL_OFF;
}

/* Reads the stub's status; NOT_MAPPED while the control page is not mapped. */
static struct ht_err *read_status(const struct attempt *attempt, int64_t *ret)
{
	int64_t status;
	size_t got = 0;
	struct ht_err *err = memory_read_some(attempt->proc,
		control_of(attempt) + offsetof(struct abi_control, stub_status), &status,
		sizeof(status), &got);

	*ret = !err && got == sizeof(status) ? status : NOT_MAPPED;
	return err;
}

/* Sleeps instead of spinning: on a busy machine a process that spins does not get the core back
 * before the lease ends. */
static struct ht_err *wait_a_little(struct attempt *attempt, uint64_t pause_ns)
{
	HT_TRY(tracee_pass_signals(&attempt->tracee));
	clock_sleep_ns(pause_ns);
	return NULL;
}

/* On one core with heaptap the thread is interrupted by each look, and may then have to wait for
 * other threads' time slices. So look only when the stub can be done, and seldom. */
static uint64_t calls_pause_ns(const struct attempt *attempt)
{
	uint64_t least_ns = attempt->map ? MAPS_NS : UNMAPS_NS;
	uint64_t ran_ns = clock_mono_ns() - attempt->sent_ns;
	uint64_t pause_ns = ran_ns < least_ns ? least_ns - ran_ns : ran_ns / 4;
	return pause_ns < CLOCK_PAUSE_MAX_NS ? pause_ns : CLOCK_PAUSE_MAX_NS;
}

static bool is_unmapped(const struct attempt *attempt)
{
	const raddr_t *last = NULL;
	uint8_t byte;
	size_t got = 0;

	for (size_t i = 0; i < STUB_UNMAP_RANGES; i++)
		if (attempt->unmap.lo[i] < attempt->unmap.hi[i])
			last = &attempt->unmap.lo[i];
	if (!last)
		return true;
	return ht_err_drop(memory_read_some(attempt->proc, *last, &byte, 1, &got)) || got == 0;
}

/* Answers "taken" through heaptap's own mapping of the memfd; `ret` is false if the lease has just
 * expired. If the agent could not work in this thread, ends the lease instead. */
static struct ht_err *answer_lease(
	int memfd, uint64_t image_bytes, bool *ret_clock_forbidden, bool *ret)
{
	struct stat stat;
	if (fstat(memfd, &stat) < 0 || (uint64_t)stat.st_size != image_bytes)
		return ht_err_new(
			HT_ERR_REFUSED, "a descriptor of the process is not heaptap's memory");
	struct abi_control *control = mmap(
		NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, ABI_CONTROL_OFF);
	if (control == MAP_FAILED)
		return ht_err_sys(errno, "cannot map the agent's control page");
	uint64_t expected = 0;
	*ret_clock_forbidden = control->stub_tsc == PR_TSC_SIGSEGV;
	*ret = __atomic_compare_exchange_n(&control->taken, &expected,
		*ret_clock_forbidden ? STUB_EXPIRED : STUB_TAKEN, false, __ATOMIC_SEQ_CST,
		__ATOMIC_SEQ_CST);
	munmap(control, HT_PAGE_BYTES);
	return NULL;
}

/* Is the thread out of the stub? Its signals are blocked, so only the stub's end brings it out. A
 * thread that does not wait has left if it has run for longer than a stub can. */
static bool has_left(const struct attempt *attempt)
{
	struct proc_syscall call;
	/* Until the lease is over the looks are not worth their cost. */
	if (clock_mono_ns() - attempt->sent_ns <= attempt->map->lease_ns)
		return false;
	uint64_t ran_ns = proc_ran_ns(attempt->proc, attempt->tid);
	bool waits = !ht_err_drop(proc_syscall_read(attempt->proc, attempt->tid, &call)) &&
		     (call.where == PROC_IN_SYSCALL || call.where == PROC_BLOCKED_ELSEWHERE);
	if (waits)
		return !in_slack(attempt->slack, call.pc);
	return attempt->ran_ns && ran_ns > attempt->ran_ns &&
	       ran_ns - attempt->ran_ns > attempt->map->lease_ns + STUB_RUN_NS;
}

/* A thread that leaves before it was seen ready has given up: a call failed, or the lease expired
 * before heaptap got a core. */
static struct ht_err *wait_ready(struct attempt *attempt)
{
	uint64_t deadline = clock_mono_ns() + READY_DEADLINE_NS;
	int64_t status;
	struct ht_err *err = read_status(attempt, &status);

	for (bool left = false; !err && status < STUB_READY;) {
		err = wait_a_little(attempt, calls_pause_ns(attempt));
		if (!err && (left || clock_mono_ns() > deadline))
			err = ht_err_new(HT_ERR_REFUSED,
				"thread %d could not map heaptap's code: the machine is too busy, "
				"or the process's address space, descriptors or memory are limited "
				"(ulimit -v, ulimit -n, control group)",
				attempt->tid);
		left = !err && has_left(attempt);
		HT_THEN(err, read_status(attempt, &status));
	}
	return err;
}

/* `ret_taken`: false if the descriptors are closed already, because the lease is over, or because
 * another thread of the program has closed one. */
static struct ht_err *take_fds(const struct attempt *attempt, struct attempt_outcome *outcome,
	struct worker_reply *reply, bool *ret_taken)
{
	static const int order[] = {-1, ATTEMPT_MEMFD, ATTEMPT_AGENT, ATTEMPT_DAEMON};
	int32_t fds[HT_ARRAY_SIZE(order)];
	size_t got = 0;
	struct ht_err *err = memory_read_some(attempt->proc,
		control_of(attempt) + offsetof(struct abi_control, stub_fds), fds, sizeof(fds),
		&got);

	*ret_taken = !err && got == sizeof(fds);
	outcome->agent_fd = fds[0];
	for (size_t i = 1; *ret_taken && i < HT_ARRAY_SIZE(order); i++) {
		int fd = descriptor_take(attempt->proc, attempt->tid, fds[i]);
		reply->fd[order[i]] = fd;
		if (fd < 0 && errno != EBADF)
			err = ht_err_sys(errno,
				"cannot get the descriptors of heaptap's code from the process");
		/* Without the stub's mark the number leads to another file by now. */
		*ret_taken = fd >= 0 && fcntl(fd, F_GETSIG) == STUB_MARK;
	}
	return err;
}

static struct ht_err *wait_done(struct attempt *attempt, bool *ret_stuck)
{
	uint64_t since_ns = clock_mono_ns();
	int64_t status;
	struct ht_err *err = read_status(attempt, &status);

	while (!err && status != STUB_DONE && !*ret_stuck) {
		uint64_t pause_ns = clock_pause_ns(since_ns);
		/* Once taken, the image stays mapped: a failed read says nothing about the stub.
		 * Check the process only after a millisecond, since the thread is held
		 * meanwhile. */
		if (clock_mono_ns() - since_ns > CLOCK_NS_PER_MS)
			err = proc_check_same(attempt->proc);
		HT_THEN(err, wait_a_little(attempt, pause_ns > CLOSES_NS ? pause_ns : CLOSES_NS));
		*ret_stuck = clock_mono_ns() - since_ns > READY_DEADLINE_NS;
		HT_THEN(err, read_status(attempt, &status));
	}
	*ret_stuck &= status != STUB_DONE;
	return err;
}

static void close_fds(struct worker_reply *reply)
{
	for (size_t i = 0; i < WORKER_FDS_MAX; i++)
		fd_close(&reply->fd[i]);
}

/* Without root, the image can be reached only through its memfd, and this worker may be killed as
 * soon as the thread may keep the image: so another process gets the memfd first. */
static struct ht_err *hand_over(const struct attempt *attempt, struct attempt_outcome *outcome,
	const struct worker_reply *reply)
{
	const struct remote_heir *heir = attempt->heir;
	struct ht_err *err = heir ? heir->hand_over(heir->context, reply->fd[ATTEMPT_MEMFD]) : NULL;
	outcome->untouched = outcome->not_taken = false;
	return err ? err : worker_hand_over(reply);
}

static struct ht_err *take_image(
	struct attempt *attempt, struct attempt_outcome *outcome, struct worker_reply *reply)
{
	bool accepted = false;
	struct ht_err *err = wait_ready(attempt);

	HT_THEN(err, take_fds(attempt, outcome, reply, &accepted));
	if (!err && accepted)
		err = hand_over(attempt, outcome, reply);
	if (!err && accepted)
		err = answer_lease(reply->fd[ATTEMPT_MEMFD], attempt->map->image_bytes,
			&outcome->clock_forbidden, &accepted);
	outcome->not_taken = err || !accepted || outcome->clock_forbidden;
	if (!outcome->not_taken)
		return wait_done(attempt, &outcome->stuck);
	close_fds(reply);
	if (!err && !outcome->clock_forbidden)
		err = ht_err_new(HT_ERR_REFUSED,
			"the machine is too busy: thread %d gave up waiting for heaptap and undid "
			"everything; try again",
			attempt->tid);
	return err;
}

static struct ht_err *wait_unmapped(struct attempt *attempt)
{
	uint64_t deadline = clock_mono_ns() + READY_DEADLINE_NS;
	struct ht_err *err = NULL;

	/* Twice, since a single failed read proves nothing. */
	while (!err && !(is_unmapped(attempt) && is_unmapped(attempt))) {
		err = wait_a_little(attempt, calls_pause_ns(attempt));
		if (!err && clock_mono_ns() > deadline)
			err = ht_err_new(HT_ERR_INCOMPLETE,
				"thread %d did not unmap heaptap's code", attempt->tid);
	}
	/* Wait a little, so that the thread reaches its wait for heaptap: if it is stopped before,
	 * it must be stopped once more. */
	return err ? err : wait_a_little(attempt, CLOCK_PAUSE_MIN_NS);
}

/* The thread stays traced until heaptap puts it back. So the kernel itself restarts the thread's
 * call, or returns EINTR for a signal that came meanwhile; a handler of that signal finds the
 * thread's registers, not the stub's; and the stub's calls pass a seccomp filter. */
static struct ht_err *run_stub(struct attempt *attempt)
{
	struct tracee *tracee = &attempt->tracee;
	struct stub_thread thread = {.resume = tracee_resume_regs(&tracee->regs, tracee->filtered),
		.hold_ms = HOLD_MS,
		.together = attempt->together};
	struct user_regs_struct enter = thread.resume;

	struct ht_err *err = tracee_signal_mask(tracee, &thread.signal_mask);
	if (!err && !attempt->map)
		err = attempt->remains->look(
			attempt->remains->context, attempt->tid, &attempt->unmap);
	HT_THEN(err, write_stub(attempt, &thread));
	HT_THEN(err, tracee_check_memory(tracee, attempt->proc, attempt->slack->addr));
	if (err)
		return ht_err_first(err, tracee_release(tracee));
	attempt->as_stopped = *tracee;
	attempt->signal_mask = thread.signal_mask;
	attempt->sent_ns = clock_mono_ns();
	regs_set_pc(&enter, attempt->slack->addr);
	err = tracee_divert(tracee, &enter);
	/* Read when the thread runs already, so it may include the stub's first steps. */
	attempt->ran_ns = proc_ran_ns(attempt->proc, tracee->tid);
	return err;
}

/* Puts the thread back when it waits at the stub's end (stub.c add_hold), or releases it if it is
 * out of the stub already: a stub that undoes its calls does not wait. */
static struct ht_err *part(struct attempt *attempt, bool *ret_put_back)
{
	struct tracee *tracee = &attempt->tracee;
	uint64_t deadline = clock_mono_ns() + READY_DEADLINE_NS;
	enum tracee_result result;

	for (;;) {
		struct ht_err *err = tracee_stop_again(tracee, deadline, &result);
		if (err || result != TRACEE_STOPPED)
			return err;
		bool inside = in_slack(attempt->slack, regs_pc(&tracee->regs));
		if (inside && regs_call(&tracee->regs) == SYS_rt_sigtimedwait) {
			err = tracee_put_back(&attempt->as_stopped, attempt->signal_mask);
			*ret_put_back = !err;
			return err;
		}
		if (!inside || clock_mono_ns() > deadline)
			return tracee_release(tracee);
		uint64_t ran_ns = proc_ran_ns(attempt->proc, tracee->tid);
		err = tracee_run(tracee, &tracee->regs);
		do
			err = err ? err : wait_a_little(attempt, clock_pause_ns(attempt->sent_ns));
		while (!err && !proc_has_run(attempt->proc, tracee->tid, ran_ns) &&
			clock_mono_ns() < deadline);
		if (err)
			return err;
	}
}

/* Stops the thread in a usable place. A thread in the wrong place is elsewhere a moment later, so
 * it is released and stopped again. */
static struct ht_err *stop_usable(struct attempt *attempt, enum recheck_verdict *ret)
{
	uint64_t deadline = clock_mono_ns() + STOP_DEADLINE_NS;
	struct tracee *tracee = &attempt->tracee;

	*ret = HELD_ELSEWHERE;
	for (unsigned tries = 0; *ret == HELD_ELSEWHERE && tries < STOP_TRIES; tries++) {
		enum tracee_result result;
		struct ht_err *err = tracee_stop(attempt->tid, deadline, false, tracee, &result);
		if (err || result != TRACEE_STOPPED)
			return err;
		err = recheck_judge(attempt->proc, tracee, attempt->slack, attempt->remains, ret);
		if (!err && *ret == HELD_FIT)
			return NULL;
		HT_TRY(ht_err_first(err, tracee_release(tracee)));
	}
	return NULL;
}

struct ht_err *attempt_run(void *context, struct worker_reply *reply)
{
	struct attempt *attempt = context;
	struct attempt_outcome *outcome = (struct attempt_outcome *)reply->data;
	enum recheck_verdict verdict = HELD_ELSEWHERE;
	pid_t ns_tid =
		proc_ns_tid(attempt->proc, attempt->tid); /* before the hold, to keep that short */
	struct ht_err *err = recheck_slack_runs(attempt->proc, attempt->slack);

	if (!attempt->computes) /* a computing thread would leave this worker no core */
		attempt->together = priority_move(proc_core(attempt->proc, attempt->tid)) &&
				    proc_timer_slack_ns(attempt->tid) <= SLACK_MAX_NS;
	outcome->not_taken = outcome->untouched = true;
	HT_THEN(err, stop_usable(attempt, &verdict));
	if (!err && attempt->map)
		err = recheck_refuse(attempt->proc, attempt->tid, verdict);
	if (err || verdict != HELD_FIT)
		return err;
	err = run_stub(attempt);
	outcome->untouched = !attempt->written;
	if (err)
		return err;
	const struct user_regs_struct *regs = &attempt->as_stopped.regs;
	outcome->thread_pointer = regs_thread_pointer(regs);
	outcome->tid_offset = attempt->map ? tidoffset_find(attempt->proc, regs, ns_tid) : 0;
	err = attempt->map ? take_image(attempt, outcome, reply) : wait_unmapped(attempt);
	outcome->ran = true;
	err = ht_err_first(err, part(attempt, &outcome->put_back));
	/* At most the time in which the thread did not run its own code: until heaptap has put it
	 * back. */
	outcome->stop_ns = clock_mono_ns() - attempt->as_stopped.ran_until_ns;
	return err;
}
