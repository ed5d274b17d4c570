/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/inject/stub_layout.h"
#include "attach/target/clock.h"
#include "attach/target/tracee.h"
#include "attach/target/worker.h"
#include "format/abi_control.h"

#define STOP_DEADLINE_NS  (200 * CLOCK_NS_PER_MS)
#define READY_DEADLINE_NS (2000 * CLOCK_NS_PER_MS)
/* Who sleeps is soon scheduled again; who spins is not, on a busy machine, until the lease is over.
 */
#define POLL_NS	       10000u
#define CANDIDATES_MAX 32u
#define STOP_TRIES     3u
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif
#define USER_CS 0x33 /* 64-bit user code segment */

struct ht_err *remote_slack_prepare(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, struct remote_slack *ret)
{
	struct choose_slack place;
	struct ht_err *err = choose_slack(modules, maps, stub_map_bytes(), &place);
	if (err)
		return err;
	struct remote_slack slack = {.addr = place.addr, .bytes = place.bytes};
	err = memory_read(proc, slack.addr, slack.original, slack.bytes);
	if (!err)
		err = memory_write(proc, slack.addr, slack.original, slack.bytes);
	if (!err)
		*ret = slack;
	return err;
}

struct ht_err *remote_slack_restore(const struct proc *proc, const struct remote_slack *slack)
{
	return memory_write(proc, slack->addr, slack->original, slack->bytes);
}

/* One attempt with one thread, in a worker. */
struct attempt {
	const struct proc *proc;
	const struct remote_slack *slack;
	pid_t tid;
	bool suspend_seccomp;
	const struct stub_map *map; /* NULL: unmap */
	const struct stub_unmap *unmap;
	struct tracee tracee;
};

struct outcome {
	bool ran; /* false: this thread would not do, try another */
	uint64_t stop_ns;
	raddr_t thread_pointer;
	int agent_fd;
};

enum { REPLY_MEMFD, REPLY_DAEMON, REPLY_AGENT };

static bool in_slack(const struct remote_slack *slack, raddr_t pc)
{
	return pc - slack->addr < slack->bytes;
}

/* Its handler would run first, and might never come back to us. */
static bool signal_waits(const struct attempt *attempt)
{
	struct proc_status status;
	struct ht_err *err = proc_status(attempt->proc, attempt->tid, &status);
	bool waits = !err && (status.sig_pnd | status.shd_pnd) & ~status.sig_blk;
	ht_err_free(err);
	return waits;
}

static struct ht_err *usable(const struct attempt *attempt, const struct tracee *tracee, bool *ret)
{
	const struct remote_slack *slack = attempt->slack;
	bool in_rseq;
	struct ht_err *err = tracee_in_rseq(attempt->proc, tracee, &in_rseq);
	*ret = !err && !in_rseq && tracee->regs.cs == USER_CS &&
	       !in_slack(slack, tracee->regs.rip) && !tracee_interrupted_by_signal(tracee) &&
	       !signal_waits(attempt);
	return err;
}

static struct ht_err *write_stub(const struct attempt *attempt, const struct stub_thread *thread)
{
	struct stub stub;
	raddr_t at = attempt->slack->addr;
	struct ht_err *err = attempt->map ? stub_make_map(attempt->map, at, thread, &stub)
					  : stub_make_unmap(attempt->unmap, at, thread, &stub);
	if (!err && stub.length > attempt->slack->bytes)
		err = ht_err_new(HT_ERR_INTERNAL, "the stub outgrew its place");
	if (err)
		return err;
	return memory_write(attempt->proc, at, stub.bytes, stub.length);
}

static raddr_t control_of(const struct attempt *attempt)
{
	return attempt->map->image + ABI_CONTROL_OFF;
}

/* Reads a handshake word; false while the control page is not mapped. */
static bool read_status(const struct attempt *attempt, int64_t *ret)
{
	size_t got = 0;
	struct ht_err *err = memory_read_some(attempt->proc,
		control_of(attempt) + offsetof(struct abi_control, stub_status), ret, sizeof(*ret),
		&got);
	ht_err_free(err);
	return !err && got == sizeof(*ret);
}

/* Its calls pass the filter only as long as we hold it: until it is out of the stub. */
static struct ht_err *wait_a_little(struct attempt *attempt)
{
	struct ht_err *err =
		attempt->suspend_seccomp ? tracee_pass_signals(&attempt->tracee) : NULL;
	if (!err)
		clock_sleep_ns(POLL_NS);
	return err;
}

static bool is_unmapped(const struct attempt *attempt)
{
	uint8_t byte;
	size_t got = 0;

	/* The second range goes last. */
	int last = attempt->unmap->lo[1] < attempt->unmap->hi[1];
	struct ht_err *err =
		memory_read_some(attempt->proc, attempt->unmap->lo[last], &byte, 1, &got);
	ht_err_free(err);
	return err || got == 0;
}

/* Where the main thread has ended the process has no descriptors, but its threads have (6.9). */
static int take_fd_of_thread(pid_t tid, int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	int got = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	int sys = errno;

	if (pidfd >= 0)
		close(pidfd);
	errno = sys;
	return got;
}

static int take_fd(const struct attempt *attempt, int fd)
{
	int got = (int)syscall(SYS_pidfd_getfd, attempt->proc->pidfd, fd, 0);
	return got < 0 && errno == ESRCH ? take_fd_of_thread(attempt->tid, fd) : got;
}

/* Says "taken" through our own mapping of the memfd; false when the lease has just expired. */
static struct ht_err *accept_lease(int memfd, uint64_t image_bytes, bool *ret)
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
	*ret = __atomic_compare_exchange_n(
		&control->taken, &expected, STUB_TAKEN, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	munmap(control, HT_PAGE_BYTES);
	return NULL;
}

static struct ht_err *wait_ready(struct attempt *attempt)
{
	uint64_t deadline = clock_mono_ns() + READY_DEADLINE_NS;
	struct ht_err *err = NULL;
	int64_t status = 0;

	while (!err && (!read_status(attempt, &status) || status < STUB_READY)) {
		err = wait_a_little(attempt);
		if (!err && clock_mono_ns() > deadline)
			err = ht_err_new(HT_ERR_REFUSED,
				"thread %d of the target could not map the agent: the machine may "
				"be too busy, or the target's address space, descriptors or memory "
				"limited (ulimit -v, ulimit -n, cgroup)",
				attempt->tid);
	}
	return err;
}

/* False in `ret_taken`: the thread has closed or unmapped them already, because the lease is over.
 */
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
		int fd = take_fd(attempt, fds[i]);
		reply->fd[order[i]] = fd;
		*ret_taken = fd >= 0;
		if (fd < 0 && errno != EBADF)
			err = ht_err_sys(
				errno, "cannot take the agent's descriptors from the target");
	}
	return err;
}

static struct ht_err *wait_done(struct attempt *attempt)
{
	uint64_t deadline = clock_mono_ns() + READY_DEADLINE_NS;
	struct ht_err *err = NULL;
	int64_t status = 0;

	while (!err && read_status(attempt, &status) && status != STUB_DONE) {
		err = wait_a_little(attempt);
		if (!err && clock_mono_ns() > deadline)
			err = ht_err_new(HT_ERR_INTERNAL,
				"thread %d does not come back from the stub", attempt->tid);
	}
	return err;
}

static struct ht_err *take_image(
	struct attempt *attempt, struct outcome *outcome, struct worker_reply *reply)
{
	bool accepted = false;
	struct ht_err *err = wait_ready(attempt);

	if (!err)
		err = take_fds(attempt, outcome, reply, &accepted);
	if (!err && accepted)
		err = accept_lease(reply->fd[REPLY_MEMFD], attempt->map->image_bytes, &accepted);
	if (!err && !accepted)
		err = ht_err_new(HT_ERR_REFUSED,
			"the machine is too busy: thread %d gave up waiting for us and undid "
			"everything; try again",
			attempt->tid);
	return err ? err : wait_done(attempt);
}

static struct ht_err *wait_unmapped(struct attempt *attempt)
{
	uint64_t deadline = clock_mono_ns() + READY_DEADLINE_NS;
	struct ht_err *err = NULL;

	while (!err && !is_unmapped(attempt)) {
		err = wait_a_little(attempt);
		if (!err && clock_mono_ns() > deadline)
			err = ht_err_new(HT_ERR_INCOMPLETE,
				"thread %d of the target did not unmap the agent", attempt->tid);
	}
	return err;
}

static struct ht_err *run_stub(struct attempt *attempt)
{
	struct tracee *tracee = &attempt->tracee;
	struct stub_thread thread = {.resume = tracee_resume_regs(&tracee->regs, tracee->filtered)};
	struct user_regs_struct enter = thread.resume;
	struct ht_err *err = tracee_signal_mask(tracee, &thread.signal_mask);
	if (!err)
		err = write_stub(attempt, &thread);

	if (err)
		return ht_err_first(err, tracee_release(tracee));
	enter.rip = attempt->slack->addr;
	return attempt->suspend_seccomp ? tracee_run(tracee, &enter)
					: tracee_release_at(tracee, &enter);
}

/* Lets go of a thread that we hold because of its filter, when no call of the stub is left. */
static struct ht_err *part(struct attempt *attempt)
{
	struct tracee *tracee = &attempt->tracee;
	uint64_t deadline = clock_mono_ns() + READY_DEADLINE_NS;
	enum tracee_result result;

	for (;;) {
		struct ht_err *err = tracee_stop_again(tracee, deadline, &result);
		if (err || result != TRACEE_STOPPED)
			return err;
		if (!in_slack(attempt->slack, tracee->regs.rip) || clock_mono_ns() > deadline)
			return tracee_release(tracee);
		err = tracee_run(tracee, &tracee->regs);
		if (!err)
			err = wait_a_little(attempt);
		if (err)
			return err;
	}
}

/* A thread in the wrong place is elsewhere a moment later: it is let go and stopped again. */
static struct ht_err *stop_usable(struct attempt *attempt, bool *ret)
{
	uint64_t deadline = clock_mono_ns() + STOP_DEADLINE_NS;
	struct tracee *tracee = &attempt->tracee;

	*ret = false;
	for (unsigned tries = 0; tries < STOP_TRIES; tries++) {
		enum tracee_result result;
		struct ht_err *err = tracee_stop(
			attempt->tid, deadline, attempt->suspend_seccomp, tracee, &result);
		if (err || result != TRACEE_STOPPED)
			return err;
		err = usable(attempt, tracee, ret);
		if (!err && *ret)
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
	bool good;
	struct ht_err *err = stop_usable(attempt, &good);

	if (err || !good)
		return err;
	outcome->thread_pointer = attempt->tracee.regs.fs_base;
	err = run_stub(attempt);
	if (err)
		return err;
	err = attempt->map ? take_image(attempt, outcome, reply) : wait_unmapped(attempt);
	outcome->ran = true;
	if (attempt->suspend_seccomp)
		err = ht_err_first(err, part(attempt));
	outcome->stop_ns = clock_mono_ns() - attempt->tracee.ran_until_ns;
	return err;
}

static struct ht_err *try_threads(
	struct attempt *attempt, struct worker_reply *reply, struct outcome *ret)
{
	struct choose_threads threads;
	struct ht_err *err = choose_threads(attempt->proc, &threads);
	if (err)
		return err;
	ret->ran = false;
	for (size_t i = 0; !err && !ret->ran && i < threads.count && i < CANDIDATES_MAX; i++) {
		attempt->tid = threads.tid[i];
		uint64_t deadline = clock_mono_ns() + STOP_DEADLINE_NS + 3 * READY_DEADLINE_NS;
		err = worker_run("attaching", deadline, attempt_job, attempt, reply);
		if (!err)
			memcpy(ret, reply->data, sizeof(*ret));
	}
	choose_threads_deinit(&threads);
	if (!err && !ret->ran)
		err = ht_err_new(HT_ERR_REFUSED,
			"no thread of the target could be stopped: all are in "
			"uninterruptible calls, stopped, held by another tracer, or inside "
			"restartable "
			"sequences");
	return err;
}

struct ht_err *remote_map(const struct proc *proc, const struct remote_slack *slack,
	const struct stub_map *map, bool suspend_seccomp, struct remote_image *ret)
{
	struct attempt attempt = {
		.proc = proc, .slack = slack, .suspend_seccomp = suspend_seccomp, .map = map};
	struct worker_reply reply;
	struct outcome outcome;
	struct ht_err *err = try_threads(&attempt, &reply, &outcome);
	if (err)
		return err;
	*ret = (struct remote_image){
		.memfd = reply.fd[REPLY_MEMFD],
		.daemon_fd = reply.fd[REPLY_DAEMON],
		.agent_socket = reply.fd[REPLY_AGENT],
		.agent_fd = outcome.agent_fd,
		.tid = attempt.tid,
		.thread_pointer = outcome.thread_pointer,
		.stop_ns = outcome.stop_ns,
	};
	return NULL;
}

struct ht_err *remote_unmap(const struct proc *proc, const struct remote_slack *slack,
	const struct stub_unmap *unmap, bool suspend_seccomp, uint64_t *ret_stop_ns)
{
	struct attempt attempt = {
		.proc = proc, .slack = slack, .suspend_seccomp = suspend_seccomp, .unmap = unmap};
	struct worker_reply reply;
	struct outcome outcome;
	struct ht_err *err = try_threads(&attempt, &reply, &outcome);
	if (!err)
		*ret_stop_ns = outcome.stop_ns;
	return err;
}
