/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "format/helper.h"

/* A reader that waits for the end of the parent's output must not wait for this process. */
static void leave_terminal(bool keep_stdout)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fd != STDOUT_FILENO || !keep_stdout)
			helper_silence(fd);
}

bool apart_become(const char *name, int first, int second, bool keep_stdout)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* A signal to the daemon's process group (Ctrl-\, timeout -s KILL) must not end this
	 * process, too. */
	setpgid(0, 0);
	prctl(PR_SET_NAME, name);
	/* Move `first` before the standard descriptors become /dev/null: it may have the number of
	 * one. */
	int kept[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, APART_FIRST_FD, -1};
	/* `second` may have the number that `first` gets. */
	if (second >= 0)
		second = fcntl(second, F_DUPFD_CLOEXEC, APART_SECOND_FD + 1);
	if (dup2(first, APART_FIRST_FD) != APART_FIRST_FD)
		return false;
	if (second >= 0)
		kept[4] = dup3(second, APART_SECOND_FD, O_CLOEXEC);
	if (!helper_close_all_but(kept, HT_ARRAY_SIZE(kept)))
		return false;
	leave_terminal(keep_stdout);
	fcntl(APART_FIRST_FD, F_SETFD, FD_CLOEXEC);
	return true;
}

/* --- rights --- */

static bool is_refused(int result)
{
	return result < 0 && errno != EPERM;
}

bool apart_drop_rights(uid_t uid, gid_t gid)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};
	const struct rlimit none_at_all = {0, 0};
	bool refused = false;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP, 0,
		0, 0);
	/* Try each call even if one before failed: root in a container may lack the right to one of
	 * them. A root that cannot become another user has no capability left, and writes no
	 * file. */
	if (geteuid() == 0) {
		refused = is_refused(setgroups(0, NULL));
		refused |= is_refused(setresgid(gid, gid, gid));
		refused |= is_refused(setresuid(uid, uid, uid));
	}
	setrlimit(RLIMIT_FSIZE, &none_at_all);
	syscall(SYS_capset, &header, none);
	return !refused;
}
