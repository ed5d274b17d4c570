/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc/procfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 64u

/* NSpid has one number for each namespace from that of /proc to heaptap's own; a single number
 * means that they are the same. A kernel without namespaces has no such line. */
static struct ht_err *is_ours(bool *ret)
{
	char *line = NULL;
	size_t bytes = 0;
	bool there = true;
	FILE *file = fopen("/proc/self/status", "re");

	/* /proc is not mounted: proc_open reports that. If /proc showed our namespace, there would
	 * be a self. */
	*ret = file || (errno == ENOENT && access("/proc/1", F_OK) != 0);
	if (!file)
		return errno == ENOENT ? NULL : ht_err_sys(errno, "cannot open /proc/self/status");
	while (there && (there = getline(&line, &bytes, file) > 0)) {
		int outer, inner;
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		*ret = sscanf(line + 6, "%d %d", &outer, &inner) == 1;
		there = false;
	}
	struct ht_err *err =
		ferror(file) ? ht_err_sys(errno, "cannot read /proc/self/status") : NULL;
	free(line);
	fclose(file);
	return err;
}

/* Will children be in heaptap's own namespace? Not after unshare(CLONE_NEWPID), or setns(2) without
 * a fork. */
static bool are_children_ours(void)
{
	char own[NAME_BYTES], children[NAME_BYTES];
	ssize_t own_bytes = readlink("/proc/self/ns/pid", own, sizeof(own));
	ssize_t bytes = readlink("/proc/self/ns/pid_for_children", children, sizeof(children));
	/* Neither link: a kernel without namespaces. Only the second missing: the namespace has no
	 * process yet. */
	return own_bytes == bytes && (bytes < 0 || memcmp(own, children, (size_t)bytes) == 0);
}

static struct ht_err *check(void)
{
	bool ours;
	HT_TRY(is_ours(&ours));
	if (!ours)
		return ht_err_new(HT_ERR_REFUSED,
			"/proc belongs to another PID namespace than heaptap, so that its numbers "
			"name other processes; mount /proc of heaptap's namespace (unshare "
			"--mount-proc, nsenter -m -p)");
	return are_children_ours()
		       ? NULL
		       : ht_err_new(HT_ERR_REFUSED,
				 "heaptap's helper processes would be in another PID namespace "
				 "than heaptap; start heaptap in that namespace (unshare --fork)");
}

struct ht_err *procfs_check(void)
{
	static bool is_known;
	struct ht_err *err = is_known ? NULL : check();
	is_known = !err;
	return err;
}
