/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/helper/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"
#include "attach/thread/tracee.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

#define FAR_NS	(60 * CLOCK_NS_PER_S)
#define TOLD_NS (10 * CLOCK_NS_PER_S)

static uint64_t far(void)
{
	return clock_mono_ns() + FAR_NS;
}

/* Checks that no child is left, not even a dead one. */
static void check_no_child(void)
{
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
}

static int lowest_fd(void)
{
	int fd = dup(0);
	close(fd);
	return fd;
}

static struct ht_err *answer(void *context, struct worker_reply *reply)
{
	int *number = context;
	for (size_t i = 0; i < sizeof(reply->data); i++)
		if (reply->data[i])
			return ht_err_new(HT_ERR_INTERNAL, "not zeroed");
	for (size_t i = 0; i < WORKER_FDS_MAX; i++)
		if (reply->fd[i] != -1)
			return ht_err_new(HT_ERR_INTERNAL, "a descriptor from the start");
	memset(reply->data, *number, sizeof(reply->data));
	*number = 99;
	return NULL;
}

static struct ht_err *wait_on_one_core(void *context, struct worker_reply *reply)
{
	const cpu_set_t *all = context;
	cpu_set_t now;
	(void)reply;
	CPU_ZERO(&now);
	CPU_SET(sched_getcpu(), &now);
	for (int set = sched_setaffinity(0, sizeof(now), &now); !set && !CPU_EQUAL(&now, all);) {
		sched_yield();
		set = sched_getaffinity(0, sizeof(now), &now);
	}
	return NULL;
}

/* The parent moves a worker that waits for a core, for instance behind a real-time thread. */
HT_TEST(one_that_waits_for_a_core_is_spared_it)
{
	struct worker_reply reply;
	cpu_set_t all;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	ck_no_err(worker_run("testing", far(), wait_on_one_core, &all, &reply));
	check_no_child();
}

static struct ht_err *stop_twice(void *context, struct worker_reply *reply)
{
	(void)context;
	(void)reply;
	for (int i = 0; i < 2; i++)
		if (raise(SIGSTOP))
			return ht_err_sys(errno, "cannot stop");
	return NULL;
}

/* The parent continues a stopped worker: else the thread that the worker holds would wait until the
 * deadline. */
HT_TEST(one_that_is_stopped_goes_on)
{
	struct worker_reply reply;
	ck_no_err(worker_run("testing", far(), stop_twice, NULL, &reply));
	check_no_child();
}

HT_TEST(the_reply_comes_back_and_nothing_else)
{
	struct worker_reply reply;
	int number = 7, before = lowest_fd();
	memset(&reply, 0xa5, sizeof(reply));
	ck_no_err(worker_run("testing", far(), answer, &number, &reply));
	for (size_t i = 0; i < sizeof(reply.data); i++)
		ck_assert_uint_eq(reply.data[i], 7);
	for (size_t i = 0; i < WORKER_FDS_MAX; i++)
		ck_assert_int_eq(reply.fd[i], -1);
	ck_assert_int_eq(number, 7);
	ck_assert_int_eq(lowest_fd(), before);
	check_no_child();
}

static struct ht_err *give_error(void *context, struct worker_reply *reply)
{
	(void)reply;
	if (*(int *)context == 0)
		return ht_err_sys(ENOSPC, "cannot %s", "test");
	static const char cause[] = "because of this, ";
	char text[5000];
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = cause[i % strlen(cause)];
	return ht_err_new(HT_ERR_PERMISSION, "%.*s", (int)sizeof(text), text);
}

static bool is_told(void)
{
	sigset_t pending;
	return sigpending(&pending) == 0 && sigismember(&pending, SIGCHLD) > 0;
}

/* Stops `pid` as its tracer, and waits for the stop. Returns false on failure. */
static bool stop(pid_t pid)
{
	siginfo_t info;
	return ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0 &&
	       ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0 &&
	       waitid(P_PID, (id_t)pid, &info, __WALL | WSTOPPED | WNOWAIT) == 0;
}

/* waitid shows a stop a moment before the kernel sends its event. */
static bool is_told_in_time(void)
{
	uint64_t end_ns = clock_mono_ns() + TOLD_NS;
	while (!is_told() && clock_mono_ns() < end_ns)
		sched_yield();
	return is_told();
}

/* A stop that came before the wait also sends its event. */
static struct ht_err *expect_a_stop(void *context, struct worker_reply *reply)
{
	const struct child *child = context;
	if (is_told() || !stop(child->pid) || !is_told_in_time())
		return ht_err_new(HT_ERR_INTERNAL, "no event for the stop");
	worker_await_stop();
	reply->data[0] = 1;
	return is_told() ? ht_err_new(HT_ERR_INTERNAL, "the wait did not consume the event") : NULL;
}

static void wait_for_ever(const void *arg)
{
	(void)arg;
	child_ready(0);
	child_wait();
}

HT_TEST(it_wakes_when_a_thread_stops)
{
	struct worker_reply reply;
	struct child child = child_fork(wait_for_ever, NULL);
	signal(SIGCHLD, SIG_IGN); /* a parent of heaptap may have set this */
	ck_no_err(worker_run("testing", far(), expect_a_stop, &child, &reply));
	ck_assert_uint_eq(reply.data[0], 1);
	signal(SIGCHLD, SIG_DFL);
	child_kill(&child);
}

HT_TEST(errors_travel)
{
	struct worker_reply reply;
	int number = 0;
	struct ht_err *err = worker_run("testing", far(), give_error, &number, &reply);
	ck_assert_ptr_nonnull(err);
	ck_assert_int_eq(err->sys, ENOSPC);
	ck_err_says(err, HT_ERR_SYS, "cannot test: No space left");

	/* A message that is too long is cut. */
	number = 1;
	err = worker_run("testing", far(), give_error, &number, &reply);
	ck_assert_ptr_nonnull(err);
	ck_assert_uint_ge(strlen(err->message), 200);
	ck_err_says(err, HT_ERR_PERMISSION, "because of this, because");
	check_no_child();
}

static struct ht_err *hang(void *context, struct worker_reply *reply)
{
	(void)context;
	(void)reply;
	child_wait();
}

/* Descriptors 0, 2 and 3 of the reply: /dev/null, /dev/zero, /dev/full. */
static struct ht_err *hand_over(void *context, struct worker_reply *reply)
{
	(void)context;
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){1024, 1024});
	reply->fd[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
	reply->fd[2] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	reply->fd[3] = open("/dev/full", O_RDWR | O_CLOEXEC);
	return NULL;
}

HT_TEST(descriptors_travel)
{
	static const char *const names[] = {"/dev/null", NULL, "/dev/zero", "/dev/full"};
	struct worker_reply reply;
	ck_no_err(worker_run("testing", far(), hand_over, NULL, &reply));
	for (size_t i = 0; i < WORKER_FDS_MAX; i++) {
		char path[64], link[64] = "";
		if (!names[i]) {
			ck_assert_int_eq(reply.fd[i], -1);
			continue;
		}
		snprintf(path, sizeof(path), "/proc/self/fd/%d", reply.fd[i]);
		ck_assert_int_gt(readlink(path, link, sizeof(link) - 1), 0);
		ck_assert_str_eq(link, names[i]);
		ck_assert_int_eq(fcntl(reply.fd[i], F_GETFD), FD_CLOEXEC);
		close(reply.fd[i]);
	}
}

static struct ht_err *hand_over_and_fail(void *context, struct worker_reply *reply)
{
	memset(reply->data, 7, sizeof(reply->data));
	return ht_err_first(
		hand_over(context, reply), ht_err_new(HT_ERR_REFUSED, "failed afterwards"));
}

HT_TEST(an_error_loses_nothing)
{
	struct worker_reply reply;
	int before = lowest_fd();
	ck_err_says(worker_run("testing", far(), hand_over_and_fail, NULL, &reply), HT_ERR_REFUSED,
		"failed afterwards");
	ck_assert_uint_eq(reply.data[0], 7);
	ck_assert_int_eq(close(reply.fd[0]) + close(reply.fd[2]) + close(reply.fd[3]), 0);
	ck_assert_int_eq(reply.fd[1], -1);
	ck_assert_int_eq(lowest_fd(), before);
	/* A descriptor that did not come is -1, not one of an earlier reply. */
	ck_err(worker_run("testing", 0, hang, NULL, &reply), HT_ERR_REFUSED);
	for (size_t i = 0; i < WORKER_FDS_MAX; i++)
		ck_assert_int_eq(reply.fd[i], -1);
	ck_assert_uint_eq(reply.data[0], 0);
}

/* The numbers that are left suffice for the worker's socket and for some of the descriptors. */
HT_TEST(descriptors_that_do_not_fit_are_an_error)
{
	int before = lowest_fd();
	for (rlim_t room = 2; room < 4; room++) {
		struct worker_reply reply;
		struct rlimit limit = {(rlim_t)before + room, 1024};
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		ck_err_says(worker_run("testing", far(), hand_over, NULL, &reply), HT_ERR_SYS,
			"descriptors");
		ck_assert_int_eq(close(reply.fd[0]), 0);
		ck_assert_int_eq(reply.fd[3], -1);
		if (reply.fd[2] >= 0)
			close(reply.fd[2]);
		ck_assert_int_eq(lowest_fd(), before);
		check_no_child();
	}
}

HT_TEST(the_deadline_kills)
{
	struct worker_reply reply;
	int before = lowest_fd();
	ck_err_says(
		worker_run("looking around", clock_mono_ns() + CLOCK_NS_PER_MS, hang, NULL, &reply),
		HT_ERR_REFUSED, "looking around");
	check_no_child();
	ck_err(worker_run("looking around", 0, hang, NULL, &reply), HT_ERR_REFUSED);
	check_no_child();
	ck_assert_int_eq(lowest_fd(), before);
}

static struct ht_err *die(void *context, struct worker_reply *reply)
{
	(void)context;
	(void)reply;
	raise(SIGKILL);
	return NULL;
}

HT_TEST(a_worker_that_dies_is_an_error)
{
	struct worker_reply reply;
	ck_err_says(worker_run("testing", far(), die, NULL, &reply), HT_ERR_INTERNAL, "testing");
	check_no_child();
}

static struct ht_err *hand_over_and_die(void *context, struct worker_reply *reply)
{
	reply->data[0] = 7;
	struct ht_err *err = hand_over(NULL, reply);
	err = err ? err : worker_hand_over(reply);
	return err ? err : *(bool *)context ? die(NULL, reply) : hang(NULL, reply);
}

HT_TEST(what_it_has_handed_over_outlives_it)
{
	int before = lowest_fd();
	for (int dies = 0; dies < 2; dies++) {
		struct worker_reply reply;
		bool context = dies;
		uint64_t end_ns = clock_mono_ns() + (dies ? FAR_NS : 50 * CLOCK_NS_PER_MS);
		ck_err(worker_run("testing", end_ns, hand_over_and_die, &context, &reply),
			dies ? HT_ERR_INTERNAL : HT_ERR_REFUSED);
		ck_assert_uint_eq(reply.data[0], 7);
		ck_assert_int_eq(close(reply.fd[0]) + close(reply.fd[2]) + close(reply.fd[3]), 0);
		ck_assert_int_eq(reply.fd[1], -1);
		check_no_child();
		ck_assert_int_eq(lowest_fd(), before);
	}
}

static struct ht_err *take_back(void *context, struct worker_reply *reply)
{
	struct ht_err *err = hand_over(context, reply);
	err = err ? err : worker_hand_over(reply);
	*reply = WORKER_NO_REPLY;
	return err;
}

HT_TEST(a_failed_fork_has_done_nothing)
{
	struct worker_reply reply;
	int number = 7, before = lowest_fd();
	ck_no_err(worker_run("testing", far(), answer, &number, &reply));
	ck_assert(reply.begun);
	/* Denies fork, but not the clone with which a sanitizer looks at its own threads. */
	deny_calls_with(SYS_clone, 0, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, EAGAIN);
	ck_err_says(worker_run("testing", far(), answer, &number, &reply), HT_ERR_SYS,
		"testing: cannot fork");
	ck_assert(!reply.begun);
	ck_assert_int_eq(lowest_fd(), before);
}

HT_TEST(its_last_word_counts)
{
	struct worker_reply reply;
	int before = lowest_fd();
	ck_no_err(worker_run("testing", far(), take_back, NULL, &reply));
	for (size_t i = 0; i < WORKER_FDS_MAX; i++)
		ck_assert_int_eq(reply.fd[i], -1);
	ck_assert_int_eq(lowest_fd(), before);
}

static struct ht_err *hold_and_hang(void *context, struct worker_reply *reply)
{
	struct tracee tracee;
	enum tracee_result result;
	(void)reply;
	struct ht_err *err = tracee_stop(*(pid_t *)context, far(), false, &tracee, &result);
	if (err || result != TRACEE_STOPPED)
		return ht_err_new(HT_ERR_INTERNAL, "it does not stop");
	child_wait();
}

/* When the deadline kills the worker, a thread that it held runs on. */
HT_TEST(the_deadline_releases_what_was_held)
{
	struct child child = child_fork(child_idle, NULL);
	struct worker_reply reply;
	struct proc proc;
	struct proc_status status;
	ck_err(worker_run("testing", clock_mono_ns() + 50 * CLOCK_NS_PER_MS, hold_and_hang,
		       &child.pid, &reply),
		HT_ERR_REFUSED);
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_status(&proc, 0, &status));
	ck_assert_int_eq(status.tracer, 0);
	ck_assert_int_ne(status.state, 't');
	proc_close(&proc);
	child_kill(&child);
}

static struct life {
	volatile pid_t worker;
	volatile bool outlived, outlived_more;
} * life;

static struct ht_err *outlive(void *context, struct worker_reply *reply)
{
	sigset_t pending;
	(void)context;
	(void)reply;
	worker_put_off_death();
	worker_put_off_death();
	worker_resume_death();
	life->worker = getpid();
	/* Wait for the signal itself: it comes a moment after the parent's PID changes. */
	do
		sigpending(&pending);
	while (sigisemptyset(&pending));
	life->outlived = true;
	worker_resume_death();
	life->outlived_more = true;
	return NULL;
}

static void be_a_daemon(const void *arg)
{
	struct worker_reply reply;
	(void)arg;
	child_ready(0);
	ht_err_free(worker_run("testing", far(), outlive, NULL, &reply));
}

HT_TEST(the_death_of_its_parent_ends_it_but_not_at_once)
{
	int status;
	life = mmap(NULL, sizeof(*life), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(life, MAP_FAILED);
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	struct child parent = child_fork(be_a_daemon, NULL);
	while (!life->worker)
		sched_yield();
	ck_assert_int_eq(getpgid(life->worker), life->worker);
	child_kill(&parent);
	ck_assert_int_eq(waitpid(life->worker, &status, 0), life->worker);
	ck_assert(WIFSIGNALED(status));
	ck_assert(life->outlived && !life->outlived_more);
}

HT_SUITE("attach/helper/worker")
