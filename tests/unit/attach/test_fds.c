/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process that was forked for one task holds open: what it needs, also where the kernel or
 * a container knows no close_range.
 */
#include "attach/daemon/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

#define FDS_MAX 300

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
	if (!fds_close_all_but(kept, HT_ARRAY_SIZE(kept)))
		_exit(2);
	for (int fd = 0; fd < FDS_MAX; fd++)
		if ((fcntl(fd, F_GETFD) >= 0) != (fd == 150 || fd == 151 || fd == 200))
			_exit(1);
	_exit(0);
}

START_TEST(only_what_is_kept_stays_open)
{
	static const int error[] = {0, ENOSYS, EPERM};
	for (size_t i = 0; i < HT_ARRAY_SIZE(error); i++) {
		int status;
		pid_t pid = fork();
		if (pid == 0)
			close_and_tell(error[i]);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_msg(status == 0, "%d with errno %d", status, error[i]);
	}
}
END_TEST

HT_SUITE("attach/fds", only_what_is_kept_stays_open)
