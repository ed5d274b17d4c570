/* SPDX-License-Identifier: Apache-2.0
 *
 * A released command runs even if heaptap gets no confirmation; one that was not released is dead.
 */
#include "attach/run/launch.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

static unsigned failing_receives;

/* Replaces recvmsg for all of heaptap in this program. */
ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	if (failing_receives > 0) {
		failing_receives--;
		errno = ENOMEM;
		return -1;
	}
	return syscall(SYS_recvmsg, fd, message, flags);
}

static struct launch start(const char *const argv[])
{
	struct launch launch;
	ck_no_err(launch_fork((char *const *)argv, &launch));
	ck_no_err(launch_exec(&launch));
	ck_assert(launch.waits);
	return launch;
}

HT_TEST(its_word_is_lost)
{
	struct launch launch = start((const char *[]){"sh", "-c", "sleep 0.5; exit 7", NULL});
	failing_receives = 1;
	ck_no_err(launch_let_go(&launch));
	ck_assert(!launch.waits && !launch.failed);
	while (!launch.ended) {
		launch_look(&launch);
		usleep(1000);
	}
	ck_assert(WIFEXITED(launch.status) && WEXITSTATUS(launch.status) == 7);
	launch_deinit(&launch);
}

HT_TEST(command_killed_before_its_start)
{
	struct launch launch = start((const char *[]){"sh", "-c", "exit 7", NULL});
	kill(launch.pid, SIGKILL);
	struct ht_err *err = launch_let_go(&launch);
	ck_assert_ptr_nonnull(err);
	ht_err_free(err);
	ck_assert(launch.waits);
	launch_deinit(&launch);
	ck_assert(launch.ended && WIFSIGNALED(launch.status));
}

HT_SUITE("unit/attach/launch")
