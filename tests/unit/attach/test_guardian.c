/* SPDX-License-Identifier: Apache-2.0
 *
 * The guardian ends a daemon that hangs in a read of the target's memory, and no other.
 */
#include "attach/guardian.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/target/pulse.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"

#define PATIENCE_MS 60000

/* How a daemon stands there; its stderr. */
struct stand {
	bool within_read;
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
		guardian_start(&proc, &journal, &guardian))
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

START_TEST(a_daemon_that_hangs_is_ended)
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
	/* It had no place for the stub: the guardian has nothing to do, and goes. */
	run_until(waitpid((pid_t)hanging.value, &status, WNOHANG) > 0, PATIENCE_MS);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	char text[1024] = "";
	ck_assert_int_gt(pread(hangs.err_fd, text, sizeof(text) - 1, 0), 0);
	ck_assert_msg(strstr(text, "nothing was touched") &&
			      strchr(text, '\n') == text + strlen(text) - 1,
		"%s", text);
	ck_assert_int_eq(pread(stopped.err_fd, text, sizeof(text), 0), 0);
	child_kill(&stopping);
	child_kill(&waiting);
	run_until(waitpid((pid_t)stopping.value, &status, WNOHANG) > 0, PATIENCE_MS);
	run_until(waitpid((pid_t)waiting.value, &status, WNOHANG) > 0, PATIENCE_MS);
}
END_TEST

HT_SUITE("attach/guardian", a_daemon_that_hangs_is_ended)
