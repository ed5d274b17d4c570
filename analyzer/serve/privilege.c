/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/privilege.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NOBODY 65534u

/* The uid or gid in an environment variable; NOBODY if it is missing or root's. */
static unsigned user_of(const char *name)
{
	const char *text = getenv(name);
	char *end = NULL;
	errno = 0;
	unsigned long number = text ? strtoul(text, &end, 10) : 0;
	return text && *text && !*end && !errno && number > 0 && number < UINT32_MAX
		       ? (unsigned)number
		       : NOBODY;
}

struct ht_err *privilege_drop(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return ht_err_sys(errno, "cannot give up rights");
	if (geteuid() != 0)
		return NULL;
	const uid_t user = user_of("SUDO_UID");
	const gid_t group = user_of("SUDO_GID");
	if (setgroups(0, NULL) != 0 || setresgid(group, group, group) != 0 ||
		setresuid(user, user, user) != 0)
		return ht_err_sys(errno, "cannot become user %u instead of root", user);
	/* Check that root cannot be regained. */
	if (setuid(0) == 0 || geteuid() == 0)
		return ht_err_new(HT_ERR_INTERNAL, "user %u is still root", user);
	return NULL;
}
