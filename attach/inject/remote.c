/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/inject/held.h"
#include "attach/inject/preference.h"
#include "attach/inject/stub_layout.h"
#include "attach/inject/tidoffset.h"
#include "attach/target/clock.h"
#include "attach/target/descriptor.h"
#include "attach/target/priority.h"
#include "attach/target/standstill.h"
#include "attach/target/tracee.h"
#include "attach/target/worker.h"
#include "format/abi_control.h"

/* A thread stops when it is next scheduled: on a busy machine that takes a while. Given up before,
 * it returns EINTR from its call, and nobody is there to put that right. */
#define STOP_DEADLINE_NS  (10 * CLOCK_NS_PER_S)
#define READY_DEADLINE_NS (10 * CLOCK_NS_PER_S)
/* A worker stops, and waits three times, each to its own deadline: what it says is better than that
 * it had to be killed. */
#define WORKER_DEADLINE_NS (STOP_DEADLINE_NS + 3 * READY_DEADLINE_NS + 10 * CLOCK_NS_PER_S)
#define CANDIDATES_MAX	   32u
#define STOP_TRIES	   3u
#define LOOK_NS		   CLOCK_NS_PER_MS
#define OTHERS_PATIENCE_NS (100 * CLOCK_NS_PER_MS) /* for a first choice */
#define HOLD_MS		   50u
#define STUB_RUN_NS	   (200 * CLOCK_NS_PER_MS) /* beside its lease; it takes one */
#define CALLS_NS	   60000u		   /* which all calls of a stub take, at least */
#define SLACK_MAX_NS	   100000u

/* One attempt with one thread, in a worker. */
struct attempt {
	const struct proc *proc;
	const struct remote_slack *slack;
	pid_t tid;
	bool computes;		    /* it was seen so */
	bool together;		    /* on one core with us, for the moment */
	bool filtered;		    /* it may be: how its call would be made again */
	const struct stub_map *map; /* NULL: unmap */
	const struct remote_heir *heir;
	const struct remote_remains *remains;
	struct stub_unmap unmap;
	struct tracee tracee;
	struct tracee as_stopped;
	uint64_t signal_mask;
	bool written;	  /* the stub has been, or is being */
	uint64_t sent_ns; /* when the thread went to it */
	uint64_t ran_ns;  /* what it had run by then, or soon after; 0: not told */
};

struct outcome {
	bool ran;	/* false: this thread would not do, try another */
	bool untouched; /* nor was the slack written */
	uint64_t stop_ns;
	uint32_t tid_offset;
	raddr_t thread_pointer;
	int agent_fd;
	bool clock_forbidden; /* to the thread: everything is being undone */
	bool stuck;	      /* mapped, but the thread is still in the stub */
	bool not_taken;	      /* what the thread has mapped it undoes by itself */
	bool put_back;	      /* it did not come to the stub's own end */
};

#define NOT_MAPPED INT64_MIN

enum { REPLY_MEMFD, REPLY_DAEMON, REPLY_AGENT };

static bool in_slack(const struct remote_slack *slack, raddr_t pc)
{
	return pc - slack->addr < slack->bytes;
}

static struct ht_err *write_stub(struct attempt *attempt, const struct stub_thread *thread)
{
	struct stub stub;
	raddr_t at = attempt->slack->addr;
	struct ht_err *err = attempt->map ? stub_make_map(attempt->map, at, thread, &stub)
					  : stub_make_unmap(&attempt->unmap, at, thread, &stub);
	if (!err && stub.length > attempt->slack->bytes)
		err = ht_err_new(HT_ERR_INTERNAL, "the stub outgrew its place");
	if (!err)
		err = held_slack_holds(attempt->proc, attempt->slack, !attempt->map);
	if (err)
		return err;
	attempt->written = true;
	return memory_write(attempt->proc, at, stub.bytes, stub.length);
}

static raddr_t control_of(const struct attempt *attempt)
{
	return attempt->map->image + ABI_CONTROL_OFF;
}

/* Reads a handshake word; NOT_MAPPED while the control page is not. */
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

/* Who spins does not get the core back, on a busy machine, until the lease is over. */
static struct ht_err *wait_a_little(struct attempt *attempt, uint64_t pause_ns)
{
	struct ht_err *err = tracee_pass_signals(&attempt->tracee);
	if (!err)
		clock_sleep_ns(pause_ns);
	return err;
}

/* On one core with us the thread is interrupted by each look, and may wait then for the turns of
 * others: not before it can be done, and seldom. */
static uint64_t calls_pause_ns(const struct attempt *attempt)
{
	uint64_t ran_ns = clock_mono_ns() - attempt->sent_ns;
	uint64_t pause_ns = ran_ns < CALLS_NS ? CALLS_NS - ran_ns : ran_ns / 4;
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
	struct ht_err *err = memory_read_some(attempt->proc, *last, &byte, 1, &got);
	ht_err_free(err);
	return err || got == 0;
}

/* Says "taken" through our own mapping of the memfd; false when the lease has just expired. Where
 * the agent could not live it is ended instead. */
static struct ht_err *answer_lease(
	int memfd, uint64_t image_bytes, bool *ret_clock_forbidden, bool *ret)
{
	struct stat stat;
	if (fstat(memfd, &stat) < 0 || (uint64_t)stat.st_size != image_bytes)
		return ht_err_new(
			HT_ERR_REFUSED, "the target's descriptor is not the agent's memory");
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

/* Is the thread out of the stub? Nothing but its end brings it out: its signals are blocked. One
 * that does not wait has run for longer than a stub can. */
static bool has_left(const struct attempt *attempt)
{
	struct proc_syscall call;
	/* Until then it is not worth the looks. */
	if (clock_mono_ns() - attempt->sent_ns <= attempt->map->lease_ns)
		return false;
	uint64_t ran_ns = proc_ran_ns(attempt->proc, attempt->tid);
	struct ht_err *err = proc_syscall_read(attempt->proc, attempt->tid, &call);
	bool waits =
		!err && (call.where == PROC_IN_SYSCALL || call.where == PROC_BLOCKED_ELSEWHERE);

	ht_err_free(err);
	if (waits)
		return !in_slack(attempt->slack, call.pc);
	return attempt->ran_ns && ran_ns > attempt->ran_ns &&
	       ran_ns - attempt->ran_ns > attempt->map->lease_ns + STUB_RUN_NS;
}

/* One that has left before it was seen ready has given up: a call failed, or the lease was over
 * before we had a core. */
static struct ht_err *wait_ready(struct attempt *attempt)
{
	uint64_t deadline = clock_mono_ns() + READY_DEADLINE_NS;
	int64_t status;
	struct ht_err *err = read_status(attempt, &status);

	for (bool left = false; !err && status < STUB_READY;) {
		err = wait_a_little(attempt, calls_pause_ns(attempt));
		if (!err && (left || clock_mono_ns() > deadline))
			err = ht_err_new(HT_ERR_REFUSED,
				"thread %d of the target could not map the agent: the machine may "
				"be too busy, or the target's address space, descriptors or memory "
				"limited (ulimit -v, ulimit -n, cgroup)",
				attempt->tid);
		left = !err && has_left(attempt);
		if (!err)
			err = read_status(attempt, &status);
	}
	return err;
}

/* False in `ret_taken`: they are closed or unmapped already, because the lease is over, or another
 * thread of the program has closed one. */
static struct ht_err *take_fds(const struct attempt *attempt, struct outcome *outcome,
	struct worker_reply *reply, bool *ret_taken)
{
	static const int order[] = {-1, REPLY_MEMFD, REPLY_AGENT, REPLY_DAEMON};
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
			err = ht_err_sys(
				errno, "cannot take the agent's descriptors from the target");
		/* Without the stub's mark it is another file, which has got the number since. */
		*ret_taken = fd >= 0 && fcntl(fd, F_GETSIG) == STUB_MARK;
	}
	return err;
}

static struct ht_err *wait_done(struct attempt *attempt, bool *ret_stuck)
{
	uint64_t now = clock_mono_ns(), deadline = now + READY_DEADLINE_NS;
	int64_t status;
	struct ht_err *err = read_status(attempt, &status);

	/* Once taken it stays mapped: a read that fails says nothing about the stub. */
	while (!err && status != STUB_DONE && !*ret_stuck) {
		err = proc_check_same(attempt->proc);
		if (!err)
			err = wait_a_little(attempt, clock_pause_ns(now));
		*ret_stuck = clock_mono_ns() > deadline;
		if (!err)
			err = read_status(attempt, &status);
	}
	*ret_stuck &= status != STUB_DONE;
	return err;
}

static void close_fds(struct worker_reply *reply)
{
	for (size_t i = 0; i < WORKER_FDS_MAX; i++) {
		if (reply->fd[i] >= 0)
			close(reply->fd[i]);
		reply->fd[i] = -1;
	}
}

/* Without root nobody gets at the image again but through its memfd, and we may be killed as soon
 * as the thread may keep it. What the thread does then is not known. */
static struct ht_err *hand_over(
	const struct attempt *attempt, struct outcome *outcome, const struct worker_reply *reply)
{
	const struct remote_heir *heir = attempt->heir;
	struct ht_err *err = heir ? heir->hand_over(heir->context, reply->fd[REPLY_MEMFD]) : NULL;
	outcome->untouched = outcome->not_taken = false;
	return err ? err : worker_hand_over(reply);
}

static struct ht_err *take_image(
	struct attempt *attempt, struct outcome *outcome, struct worker_reply *reply)
{
	bool accepted = false;
	struct ht_err *err = wait_ready(attempt);

	if (!err)
		err = take_fds(attempt, outcome, reply, &accepted);
	if (!err && accepted)
		err = hand_over(attempt, outcome, reply);
	if (!err && accepted)
		err = answer_lease(reply->fd[REPLY_MEMFD], attempt->map->image_bytes,
			&outcome->clock_forbidden, &accepted);
	outcome->not_taken = err || !accepted || outcome->clock_forbidden;
	if (!outcome->not_taken)
		return wait_done(attempt, &outcome->stuck);
	close_fds(reply);
	if (!err && !outcome->clock_forbidden)
		err = ht_err_new(HT_ERR_REFUSED,
			"the machine is too busy: thread %d gave up waiting for us and undid "
			"everything; try again",
			attempt->tid);
	return err;
}

static struct ht_err *wait_unmapped(struct attempt *attempt)
{
	uint64_t deadline = clock_mono_ns() + READY_DEADLINE_NS;
	struct ht_err *err = NULL;

	/* Twice: one read that fails proves nothing. */
	while (!err && !(is_unmapped(attempt) && is_unmapped(attempt))) {
		err = wait_a_little(attempt, calls_pause_ns(attempt));
		if (!err && clock_mono_ns() > deadline)
			err = ht_err_new(HT_ERR_INCOMPLETE,
				"thread %d of the target did not unmap the agent", attempt->tid);
	}
	return err;
}

/* The thread stays traced until it is put back by us: so it is the kernel that makes a call again
 * in which it was, or returns EINTR because of a signal that came meanwhile; a handler of that
 * finds the thread's registers, not the stub's; and the stub's calls pass a seccomp filter. */
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
	if (!err)
		err = write_stub(attempt, &thread);
	if (!err)
		err = tracee_check_memory(tracee, attempt->proc, attempt->slack->addr);
	if (err)
		return ht_err_first(err, tracee_release(tracee));
	attempt->as_stopped = *tracee;
	attempt->signal_mask = thread.signal_mask;
	attempt->sent_ns = clock_mono_ns();
	regs_set_pc(&enter, attempt->slack->addr);
	err = tracee_divert(tracee, &enter);
	/* It runs meanwhile; what it has run by now it may run more. */
	attempt->ran_ns = proc_ran_ns(attempt->proc, tracee->tid);
	return err;
}

/* Lets go of the thread: it makes the stub's calls, and then waits for this (stub.c add_hold), all
 * others being made whatever went wrong here; or it undoes them, and does not. */
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

/* A thread in the wrong place is elsewhere a moment later: it is let go and stopped again. */
static struct ht_err *stop_usable(struct attempt *attempt, enum held_verdict *ret)
{
	uint64_t deadline = clock_mono_ns() + STOP_DEADLINE_NS;
	struct tracee *tracee = &attempt->tracee;

	*ret = HELD_ELSEWHERE;
	for (unsigned tries = 0; *ret == HELD_ELSEWHERE && tries < STOP_TRIES; tries++) {
		enum tracee_result result;
		struct ht_err *err = tracee_stop(attempt->tid, deadline, false, tracee, &result);
		if (err || result != TRACEE_STOPPED)
			return err;
		err = held_judge(attempt->proc, tracee, attempt->slack, attempt->remains, ret);
		if (!err && *ret == HELD_FIT)
			return NULL;
		err = ht_err_first(err, tracee_release(tracee));
		if (err)
			return err;
	}
	return NULL;
}

static struct ht_err *attempt_job(void *context, struct worker_reply *reply)
{
	struct attempt *attempt = context;
	struct outcome *outcome = (struct outcome *)reply->data;
	enum held_verdict verdict = HELD_ELSEWHERE;
	pid_t ns_tid = proc_ns_tid(attempt->proc, attempt->tid); /* held, it is read faster */
	struct ht_err *err = held_slack_runs(attempt->proc, attempt->slack);

	if (!attempt->computes) /* and so would leave us no core beside it */
		attempt->together = priority_move(proc_core(attempt->proc, attempt->tid)) &&
				    proc_timer_slack_ns(attempt->tid) <= SLACK_MAX_NS;
	outcome->not_taken = outcome->untouched = true;
	if (!err)
		err = stop_usable(attempt, &verdict);
	if (!err && attempt->map)
		err = held_refuse(attempt->proc, attempt->tid, verdict);
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
	/* Not since its last stop, which put it back. */
	outcome->stop_ns = clock_mono_ns() - attempt->as_stopped.ran_until_ns;
	return err;
}

struct seen {
	pid_t tid[CANDIDATES_MAX];
	struct stopcost_seen thread[CANDIDATES_MAX];
	size_t next; /* to be replaced */
};

static pid_t table_of(const struct attempt *attempt)
{
	return attempt->remains ? attempt->remains->table : 0;
}

/* Nothing but its end brings a thread out of an uninterruptible wait, or a stop. And the agent's
 * socket is to be the process's, not a thread's own. */
static bool can_stop(const struct attempt *attempt, pid_t tid)
{
	struct proc_status status;
	bool worker = true, has_table = false;
	struct ht_err *err = proc_status(attempt->proc, tid, &status);
	if (!err)
		err = proc_is_worker(attempt->proc, tid, &worker);
	if (!err)
		err = descriptor_has_table(attempt->proc, tid, table_of(attempt), &has_table);
	ht_err_free(err);
	return !err && !strchr("DTtZX", status.state) && !worker && has_table;
}

/* Their order changes from look to look. */
static struct stopcost_seen *seen_of(struct seen *seen, pid_t tid)
{
	size_t at = 0;
	while (at < CANDIDATES_MAX && seen->tid[at] != tid)
		at++;
	if (at == CANDIDATES_MAX) {
		at = seen->next++ % CANDIDATES_MAX;
		seen->tid[at] = tid;
		seen->thread[at] = (struct stopcost_seen){0};
	}
	return &seen->thread[at];
}

static bool is_timely(
	const struct attempt *attempt, struct seen *seen, const struct choose_thread *thread)
{
	return stopcost_is_timely(
		attempt->proc, thread->tid, thread->cost, seen_of(seen, thread->tid));
}

struct haste {
	bool any_thread;
	bool any_time;
};

static struct ht_err *try_each(struct attempt *attempt, struct seen *seen, struct haste haste,
	struct worker_reply *reply, struct outcome *ret)
{
	struct choose_threads threads;
	struct ht_err *err = choose_threads(attempt->proc, attempt->filtered, &threads);
	if (err)
		return err;
	struct preference preference;
	err = preference_read(attempt->proc, &threads, attempt->filtered, &preference);
	for (size_t i = 0, looks = 0;
		!err && !ret->ran && i < threads.count && looks < CANDIDATES_MAX; i++) {
		const struct choose_thread *thread = &threads.thread[i];
		if (!haste.any_thread && preference_is_second(&preference, thread))
			continue;
		looks++;
		bool timely = is_timely(attempt, seen, thread) || haste.any_time;
		if (!timely || !can_stop(attempt, thread->tid))
			continue;
		attempt->tid = thread->tid;
		attempt->computes = thread->cost == STOPCOST_RUNNING;
		err = worker_run(attempt->map ? "attaching" : "taking it out",
			clock_mono_ns() + WORKER_DEADLINE_NS, attempt_job, attempt, reply);
		memcpy(ret, reply->data, sizeof(*ret));
	}
	choose_threads_deinit(&threads);
	return err;
}

/* Rather a thread that a stop does not disturb, or not yet: it is waited for. */
static struct ht_err *try_threads(
	struct attempt *attempt, struct worker_reply *reply, struct outcome *ret)
{
	uint64_t began_ns = clock_mono_ns();
	struct haste haste = {0};
	struct seen seen = {0};
	struct ht_err *err = NULL;

	*ret = (struct outcome){0};
	while (!err && !ret->ran && !haste.any_time) {
		uint64_t waited_ns = clock_mono_ns() - began_ns;
		haste.any_thread = waited_ns > OTHERS_PATIENCE_NS;
		haste.any_time = waited_ns > STOPCOST_PATIENCE_NS;
		err = try_each(attempt, &seen, haste, reply, ret);
		if (!err && !ret->ran)
			err = proc_check_same(attempt->proc);
		if (!err && !ret->ran)
			clock_sleep_ns(LOOK_NS);
	}
	if (err || ret->ran)
		return err;
	attempt->tid = 0;
	const char *why = standstill_reason(attempt->proc);
	return ht_err_new(HT_ERR_REFUSED, "no thread of the target could be stopped: %s",
		why ? why
		    : "all are in uninterruptible calls (vfork), frozen (cgroup), stopped, held by "
		      "another tracer, inside restartable sequences, in the middle of a long write "
		      "or read, single-step themselves, or have descriptors of their own");
}

struct ht_err *remote_map(const struct proc *proc, const struct remote_slack *slack,
	const struct stub_map *map, bool filtered, const struct remote_heir *heir,
	struct remote_image *ret)
{
	struct attempt attempt = {
		.proc = proc, .slack = slack, .filtered = filtered, .map = map, .heir = heir};
	struct worker_reply reply = WORKER_NO_REPLY;
	struct outcome outcome;
	struct ht_err *err = try_threads(&attempt, &reply, &outcome);
	*ret = (struct remote_image){
		.memfd = reply.fd[REPLY_MEMFD],
		.daemon_fd = reply.fd[REPLY_DAEMON],
		.agent_socket = reply.fd[REPLY_AGENT],
		.agent_fd = outcome.agent_fd,
		.tid = outcome.untouched || !reply.begun ? 0 : attempt.tid,
		.tid_offset = outcome.tid_offset,
		.thread_pointer = outcome.thread_pointer,
		.stop_ns = outcome.stop_ns,
		.clock_forbidden = outcome.clock_forbidden,
		.not_taken = outcome.not_taken,
	};
	if (err)
		return err;
	if (outcome.clock_forbidden)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d has forbidden its threads to read the time stamp counter "
			"(PR_SET_TSC), which the agent reads at each event",
			proc->pid);
	if (!outcome.stuck)
		return NULL;
	return ht_err_new(HT_ERR_REFUSED,
		"thread %d of the target did not get to run the attach stub to its end; it may be "
		"stopped, or the machine too busy",
		attempt.tid);
}

struct ht_err *remote_unmap(const struct proc *proc, const struct remote_slack *slack,
	const struct remote_remains *remains, bool filtered, struct remote_unmapped *ret)
{
	struct attempt attempt = {
		.proc = proc, .slack = slack, .filtered = filtered, .remains = remains};
	struct worker_reply reply;
	struct outcome outcome;
	struct ht_err *err = try_threads(&attempt, &reply, &outcome);
	if (!err)
		*ret = (struct remote_unmapped){outcome.stop_ns, outcome.put_back};
	return err;
}
