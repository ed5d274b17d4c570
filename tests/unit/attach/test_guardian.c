/* SPDX-License-Identifier: Apache-2.0
 *
 * The guardian ends a daemon that hangs in a read of the target's memory, and no other.
 */
#include "attach/undo/guardian.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/helper/pulse.h"
#include "attach/process/proc_open.h"
#include "attach/undo/linger.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"

#define PATIENCE_MS   60000
#define WORKER_US     300000
#define GIVEN_UP_MS   3000
#define STANDSTILL_MS 1000
#define WITHIN_US     50000

/* The behaviour that be_daemon simulates, and its stderr. */
struct stand {
	bool within_read; /* the daemon hangs in a read of the target's memory */
	int err_fd;
};

static void be_daemon(const void *arg)
{
	const struct stand *stand = arg;
	struct proc proc;
	struct journal journal;
	struct guardian guardian;

	dup2(stand->err_fd, STDERR_FILENO);
	if (proc_open(getppid(), &proc) || journal_create(&journal) ||
		guardian_start(&proc, &journal, linger_run, &guardian))
		_exit(1);
	if (stand->within_read)
		pulse_enter();
	child_ready(guardian.pid);
	child_wait();
}

static int text_fd(void)
{
	int fd = memfd_create("stderr", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static bool lives(const struct child *child)
{
	siginfo_t info = {0};
	ck_assert_int_eq(waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	return info.si_pid == 0;
}

HT_TEST(a_daemon_that_hangs_is_ended)
{
	struct stand hangs = {.within_read = true, .err_fd = text_fd()},
		     stopped = {.within_read = true, .err_fd = text_fd()},
		     waits = {.err_fd = text_fd()};
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	struct child hanging = child_fork(be_daemon, &hangs);
	struct child stopping = child_fork(be_daemon, &stopped);
	struct child waiting = child_fork(be_daemon, &waits);
	kill(stopping.pid, SIGSTOP);

	run_until(!lives(&hanging), PATIENCE_MS);
	ck_assert(lives(&stopping));
	ck_assert(lives(&waiting));
	int status;
	ck_assert_int_eq(waitpid(hanging.pid, &status, 0), hanging.pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* The daemon had no place for the stub, so the guardian has nothing to undo, and exits. */
	run_until(waitpid((pid_t)hanging.value, &status, WNOHANG) > 0, PATIENCE_MS);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	char text[1024] = "";
	ck_assert_int_gt(pread(hangs.err_fd, text, sizeof(text) - 1, 0), 0);
	ck_assert_msg(strstr(text, "the process was not touched") &&
			      strchr(text, '\n') == text + strlen(text) - 1,
		"%s", text);
	ck_assert_int_eq(pread(stopped.err_fd, text, sizeof(text), 0), 0);
	child_kill(&stopping);
	child_kill(&waiting);
	run_until(waitpid((pid_t)stopping.value, &status, WNOHANG) > 0, PATIENCE_MS);
	run_until(waitpid((pid_t)waiting.value, &status, WNOHANG) > 0, PATIENCE_MS);
}

static unsigned long waits_of(pid_t pid)
{
	char path[48], line[256];
	unsigned long count = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "voluntary_ctxt_switches: %lu", &count);
	if (file)
		fclose(file);
	return count;
}

static void be_daemon_unheard(const void *arg)
{
	struct proc proc;
	struct journal journal;
	struct guardian guardian;

	(void)arg;
	deny_calls(SYS_recvmsg, ENOMEM);
	if (proc_open(getppid(), &proc) || journal_create(&journal) ||
		guardian_start(&proc, &journal, linger_run, &guardian) ||
		send(guardian.fd, "x", 1, 0) != 1)
		_exit(1);
	child_ready(guardian.pid);
	child_wait();
}

/* If the guardian took the failure for the daemon's end, it would remove hooks that a living daemon
 * still uses. */
HT_TEST(a_call_that_fails_is_not_the_daemons_end)
{
	int status;
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	struct child daemon = child_fork(be_daemon_unheard, NULL);
	pid_t guardian = (pid_t)daemon.value;
	unsigned long waits = waits_of(guardian);
	/* More waits prove that the guardian still runs. */
	run_until(waits_of(guardian) >= waits + 5, PATIENCE_MS / 10);
	child_kill(&daemon);
	run_until(waitpid(guardian, &status, WNOHANG) > 0, PATIENCE_MS);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* In memory shared with the worker, which sets this just before it exits. */
static volatile bool *worker_ends;

static void be_worker(pid_t daemon)
{
	while (getppid() == daemon)
		usleep(1000);
	usleep(WORKER_US);
	*worker_ends = true;
	_exit(0);
}

static void be_daemon_with_worker(const void *arg)
{
	struct proc proc;
	struct journal journal;
	struct guardian guardian;
	pid_t self = getpid();

	(void)arg;
	if (proc_open(getppid(), &proc) || journal_create(&journal) ||
		guardian_start(&proc, &journal, linger_run, &guardian))
		_exit(1);
	if (fork() == 0)
		be_worker(self);
	child_ready(guardian.pid);
	child_wait();
}

/* The worker may be about to send a thread to the stub, so the guardian waits until it has ended.
 */
HT_TEST(workers_are_outlived)
{
	int status;
	worker_ends = mmap(
		NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne((void *)worker_ends, MAP_FAILED);
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	struct child daemon = child_fork(be_daemon_with_worker, NULL);
	pid_t guardian = (pid_t)daemon.value;
	uint64_t killed_ms = run_now_ms();
	child_kill(&daemon);
	run_until(waitpid(guardian, &status, WNOHANG) > 0, PATIENCE_MS);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	/* The worker has ended, unless this machine is so slow that the guardian gave up waiting.
	 */
	ck_assert(*worker_ends || run_now_ms() - killed_ms >= GIVEN_UP_MS);
}

/* A guardian without the memfd could not get at the image again. */
HT_TEST(partial_message_is_an_error)
{
	const struct rlimit none = {2, 2}; /* poll(2) of two descriptors needs this limit */
	struct proc proc;
	struct journal journal;
	struct guardian guardian;
	struct remote_slack slack = {.addr = HT_PAGE_BYTES, .bytes = 1};
	int memfd = memfd_create("image", MFD_CLOEXEC);

	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(journal_create(&journal));
	ck_no_err(guardian_start(&proc, &journal, linger_run, &guardian));
	ck_no_err(guardian_tell_slack(&guardian, &slack));
	ck_no_err(guardian_tell_image(&guardian, memfd));
	ck_assert_int_eq(prlimit(guardian.pid, RLIMIT_NOFILE, &none, NULL), 0);
	ck_no_err(guardian_tell_slack(&guardian, &slack));
	ck_err_says(guardian_tell_image(&guardian, memfd), HT_ERR_REFUSED, "no free descriptor");
	struct child dead = {.pid = guardian.pid};
	kill(guardian.pid, SIGKILL);
	run_until(!lives(&dead), PATIENCE_MS);
	ck_err_says(guardian_tell_slack(&guardian, &slack), HT_ERR_SYS, "cannot send to");
	ck_assert(guardian_dismiss(&guardian, PATIENCE_MS * UINT64_C(1000000)));
	journal_destroy(&journal);
	proc_close(&proc);
}

static struct guardian start_guardian(void)
{
	static struct proc proc;
	static struct journal journal;
	struct guardian guardian;
	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(journal_create(&journal));
	ck_no_err(guardian_start(&proc, &journal, linger_run, &guardian));
	return guardian;
}

/* A signal to the daemon's process group must not hit the guardian. In a session of its own the
 * guardian might get no CPU time (autogroup). */
HT_TEST(has_its_own_process_group_but_no_session)
{
	struct guardian guardian = start_guardian();
	run_until(getpgid(guardian.pid) == guardian.pid, PATIENCE_MS);
	ck_assert_int_eq(getsid(guardian.pid), getsid(0));
	ck_assert(guardian_dismiss(&guardian, PATIENCE_MS * UINT64_C(1000000)));
}

HT_TEST(a_guardian_that_is_dismissed_ends)
{
	struct guardian guardian = start_guardian();
	ck_assert(guardian_dismiss(&guardian, PATIENCE_MS * UINT64_C(1000000)));
	ck_assert_int_eq(waitpid(guardian.pid, NULL, WNOHANG), -1);
	ck_assert(guardian_dismiss(&guardian, 0));
}

static struct guardian start_stopped(void)
{
	int status;
	struct guardian guardian = start_guardian();
	ck_assert_int_eq(kill(guardian.pid, SIGSTOP), 0);
	ck_assert_int_eq(waitpid(guardian.pid, &status, WUNTRACED), guardian.pid);
	return guardian;
}

/* A stopped guardian never reads the message. */
HT_TEST(a_guardian_that_does_not_end_is_killed)
{
	struct guardian guardian = start_stopped();
	ck_assert(guardian_dismiss(&guardian, 50000000));
	ck_assert_int_eq(waitpid(guardian.pid, NULL, WNOHANG), -1);
}

/* If only the socket were closed, the guardian would begin to clean up. */
HT_TEST(kills_a_guardian_that_gets_no_message)
{
	struct guardian guardian = start_stopped();
	ck_assert_int_eq(shutdown(guardian.fd, SHUT_WR), 0);
	/* Without the kill the stopped guardian would be waited for longer than any test may run.
	 */
	ck_assert(guardian_dismiss(&guardian, UINT64_C(86400000000000)));
	ck_assert_int_eq(waitpid(guardian.pid, NULL, WNOHANG), -1);
}

HT_TEST(who_takes_out_what_stays)
{
	struct guardian guardian = {.fd = -1};
	char words[192], kill_it[32];
	guardian_prospect(&guardian, 4711, words, sizeof(words));
	ck_assert(!strncmp(words, "no guardian is left", 19));
	ck_assert_ptr_nonnull(strstr(words, "heaptap recover -p 4711`"));
	guardian = start_stopped();
	guardian_prospect(&guardian, 4711, words, sizeof(words));
	snprintf(kill_it, sizeof(kill_it), "after kill -9 %d, ", guardian.pid);
	ck_assert(!strncmp(words, "the guardian goes on trying", 27));
	ck_assert(strstr(words, kill_it) && strstr(words, "heaptap recover -p 4711`"));
	ck_assert_int_eq(kill(guardian.pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(guardian.pid, NULL, 0), guardian.pid);
	guardian_prospect(&guardian, 4711, words, sizeof(words));
	ck_assert(!strncmp(words, "no guardian is left", 19));
	close(guardian.fd);
}

static volatile sig_atomic_t was_killed;

static void note_end(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	was_killed |= info->si_code == CLD_KILLED;
}

static void dismiss_stopped(const void *arg)
{
	const struct sigaction noted = {.sa_sigaction = note_end, .sa_flags = SA_SIGINFO};
	struct guardian guardian = start_guardian();
	int status;

	(void)arg;
	sigaction(SIGCHLD, &noted, NULL);
	if (kill(guardian.pid, SIGSTOP) || waitpid(guardian.pid, &status, WUNTRACED) < 0)
		_exit(2);
	child_ready(guardian.pid);
	bool ended = guardian_dismiss(&guardian, STANDSTILL_MS * UINT64_C(1000000));
	_exit(!ended || was_killed);
}

HT_TEST(a_machine_that_stood_still_is_no_reason_to_kill_it)
{
	struct child child = child_fork(dismiss_stopped, NULL);
	int status;

	usleep(WITHIN_US);
	ck_assert_int_eq(kill(child.pid, SIGSTOP), 0);
	usleep((STANDSTILL_MS + 100) * 1000);
	ck_assert_int_eq(kill(child.pid, SIGCONT), 0);
	usleep(WITHIN_US);
	ck_assert_int_eq(kill((pid_t)child.value, SIGCONT), 0);
	ck_assert_int_eq(waitpid(child.pid, &status, 0), child.pid);
	ck_assert_int_eq(status, 0);
}

HT_SUITE("attach/guardian")
