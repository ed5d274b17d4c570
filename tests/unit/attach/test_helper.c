/* SPDX-License-Identifier: Apache-2.0
 *
 * Children of heaptap's own: connected with it, heard and reaped within a time.
 */
#include "attach/helper/helper.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "tests/support/ht_check.h"

#define LONG_NS (60 * CLOCK_NS_PER_S)

static pid_t fork_one(int *ret_fd)
{
	pid_t pid;
	ck_no_err(helper_fork("a child", &pid, ret_fd));
	return pid;
}

START_TEST(both_are_connected)
{
	int fd;
	char word;
	pid_t pid = fork_one(&fd);
	if (!pid) {
		if (read(fd, &word, 1) == 1)
			(void)!write(fd, "b", 1);
		_exit(3);
	}
	ck_assert(!helper_wait_readable(fd, 0));
	ck_assert_int_eq(write(fd, "a", 1), 1);
	ck_assert(helper_wait_readable(fd, clock_mono_ns() + LONG_NS));
	ck_assert_int_eq(read(fd, &word, 1), 1);
	ck_assert_int_eq(word, 'b');
	int status = helper_reap(pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 3);
	/* Its end was its own alone. */
	ck_assert(helper_wait_readable(fd, 0));
	ck_assert_int_eq(read(fd, &word, 1), 0);
	close(fd);
}
END_TEST

START_TEST(one_that_does_not_end)
{
	int fd;
	pid_t pid = fork_one(&fd);
	if (!pid)
		for (;;)
			pause();
	ck_assert(!helper_reap_by(pid, 0));
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert(helper_reap_by(pid, clock_mono_ns() + LONG_NS));
	/* There is none any more. */
	ck_assert(helper_reap_by(pid, 0));
	ck_assert_int_eq(helper_reap(pid), -1);
	close(fd);
}
END_TEST

START_TEST(without_a_descriptor)
{
	struct rlimit limit, none;
	pid_t pid;
	int fd;
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){0, limit.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	struct ht_err *err = helper_fork("a child", &pid, &fd);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_err_says(err, HT_ERR_SYS, "cannot make a socket pair for a child");
}
END_TEST

HT_SUITE("attach/helper/helper", both_are_connected, one_that_does_not_end, without_a_descriptor)
