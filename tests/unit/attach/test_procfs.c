/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc/procfs.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

HT_TEST(our_own)
{
	ck_no_err(procfs_check());
	ck_no_err(procfs_check());
}

static bool is_allowed_here(void)
{
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: procfs: the search for leaks makes threads, which such a process "
	       "cannot\n");
	return false;
#endif
	if (unshare(CLONE_NEWPID) == 0)
		return true;
	printf("skipped: procfs: a PID namespace needs root\n");
	return false;
}

HT_TEST(of_what_we_start)
{
	if (is_allowed_here())
		ck_err_says(procfs_check(), HT_ERR_REFUSED, "helper processes");
}

/* The first process of the new namespace, which the old namespace's /proc shows under another PID.
 */
HT_TEST(another_ones)
{
	int status;
	if (!is_allowed_here())
		return;
	pid_t first = fork();
	if (!first) {
		struct ht_err *err = procfs_check();
		_exit(err && err->code == HT_ERR_REFUSED ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(first, &status, 0), first);
	ck_assert_int_eq(status, 0);
}

HT_TEST(unreadable)
{
	deny_calls(SYS_openat, EMFILE);
	ck_err_says(procfs_check(), HT_ERR_SYS, "/proc/self/status");
}

HT_SUITE("attach/proc/procfs")
