/* SPDX-License-Identifier: Apache-2.0
 *
 * Helper processes: the connection with their parent, its waits for their answer and their end, the
 * descriptors that they keep (also where close_range is missing or forbidden), and those of a
 * program that they exec.
 */
#include "format/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

#define FDS_MAX 300
#define LONG_NS 60000000000u

static void exits_with(pid_t pid, int expected)
{
	int status = helper_wait(pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == expected, "%d", status);
}

static pid_t fork_one(int *ret_fd)
{
	pid_t pid;
	ck_no_err(helper_fork_pair("a child", &pid, ret_fd));
	return pid;
}

HT_TEST(both_are_connected)
{
	int fd;
	char word;
	pid_t pid = fork_one(&fd);
	if (!pid) {
		if (read(fd, &word, 1) == 1)
			(void)!write(fd, "b", 1);
		_exit(3);
	}
	ck_assert_int_eq(write(fd, "a", 1), 1);
	ck_assert_int_eq(read(fd, &word, 1), 1);
	ck_assert_int_eq(word, 'b');
	exits_with(pid, 3);
	/* Only the helper had the other end. */
	ck_assert_int_eq(read(fd, &word, 1), 0);
	close(fd);
}

HT_TEST(one_that_does_not_end)
{
	int fd, status;
	pid_t pid = fork_one(&fd);
	if (!pid)
		for (;;)
			pause();
	ck_assert(!helper_has_ended(pid, &status));
	ck_assert(!helper_ends_within(pid, 0));
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert(helper_ends_within(pid, LONG_NS));
	/* The child has been reaped. */
	ck_assert(helper_ends_within(pid, 0));
	ck_assert(helper_has_ended(pid, &status));
	ck_assert_int_eq(status, -1);
	ck_assert_int_eq(helper_wait(pid), -1);
	close(fd);
}

HT_TEST(without_a_descriptor)
{
	struct rlimit limit, none;
	pid_t pid;
	int fd;
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){0, limit.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	struct ht_err *err = helper_fork_pair("a child", &pid, &fd);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_err_says(err, HT_ERR_SYS, "cannot make a socket pair for a child");
}

HT_TEST(it_dies_with_its_parent)
{
	int death = 0;
	pid_t pid = helper_fork(SIGUSR2);
	if (!pid)
		_exit(prctl(PR_GET_PDEATHSIG, &death) == 0 && death == SIGUSR2 ? 0 : 1);
	exits_with(pid, 0);
}

static _Noreturn void close_and_tell(int error)
{
	int kept[] = {200, -1, 150, 151};
	for (int fd = 140; fd < FDS_MAX; fd += 7)
		dup2(STDIN_FILENO, fd);
	for (size_t i = 0; i < HT_ARRAY_SIZE(kept); i++)
		if (kept[i] >= 0)
			dup2(STDIN_FILENO, kept[i]);
	if (error)
		deny_calls(SYS_close_range, error);
	if (!helper_close_all_but(kept, HT_ARRAY_SIZE(kept)))
		_exit(2);
	for (int fd = 0; fd < FDS_MAX; fd++)
		if ((fcntl(fd, F_GETFD) >= 0) != (fd == 150 || fd == 151 || fd == 200))
			_exit(1);
	_exit(0);
}

HT_TEST(only_what_is_kept_stays_open)
{
	static const int error[] = {0, ENOSYS, EPERM};
	for (size_t i = 0; i < HT_ARRAY_SIZE(error); i++) {
		pid_t pid = fork();
		if (pid == 0)
			close_and_tell(error[i]);
		exits_with(pid, 0);
	}
}

static bool is_null(int fd)
{
	struct stat file;
	return fstat(fd, &file) == 0 && S_ISCHR(file.st_mode) && file.st_rdev == makedev(1, 3) &&
	       fcntl(fd, F_GETFD) == 0;
}

HT_TEST(a_descriptor_is_silenced_also_if_it_was_closed)
{
	for (int closed = 0; closed < 2; closed++) {
		pid_t pid = fork();
		if (pid == 0) {
			int pair[2];
			if (pipe(pair) < 0 || dup2(pair[0], STDIN_FILENO) < 0)
				_exit(2);
			if (closed)
				close(STDIN_FILENO);
			helper_silence(STDIN_FILENO);
			_exit(is_null(STDIN_FILENO) ? 0 : 1);
		}
		exits_with(pid, 0);
	}
}

HT_TEST(a_program_gets_the_signals_of_a_shell)
{
	static const int ignored[] = {SIGPIPE, SIGALRM, SIGXFSZ};
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t all, left;
		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		for (size_t i = 0; i < HT_ARRAY_SIZE(ignored); i++)
			signal(ignored[i], SIG_IGN);
		helper_reset_signals();
		for (size_t i = 0; i < HT_ARRAY_SIZE(ignored); i++)
			if (signal(ignored[i], SIG_DFL) != SIG_DFL)
				_exit(1);
		sigprocmask(SIG_SETMASK, NULL, &left);
		_exit(sigisemptyset(&left) ? 0 : 2);
	}
	exits_with(pid, 0);
}

HT_SUITE("format/helper")
