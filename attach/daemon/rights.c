/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/rights.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_refused(int result)
{
	return result < 0 && errno != EPERM;
}

bool rights_drop(uid_t uid, gid_t gid)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};
	const struct rlimit none_at_all = {0, 0};
	bool refused = false;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP, 0,
		0, 0);
	/* Each by itself: root in a container may lack the right to one of them. Where it cannot
	 * become another user it has no capability left, and writes no file. */
	if (geteuid() == 0) {
		refused = is_refused(setgroups(0, NULL));
		refused |= is_refused(setresgid(gid, gid, gid));
		refused |= is_refused(setresuid(uid, uid, uid));
	}
	setrlimit(RLIMIT_FSIZE, &none_at_all);
	syscall(SYS_capset, &header, none);
	return !refused;
}
