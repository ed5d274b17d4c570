/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attach/hold/shebang.h"
#include "attach/memory/memory.h"

#define PATH_BYTES  4096u
#define FULL_BYTES  (PATH_BYTES + 64)
#define SCRIPTS_MAX 8u /* more than the kernel follows */
#define FD_CWD	    (-100)

static bool is_privileged(const char *path, const struct stat *stat)
{
	return (stat->st_mode & S_ISUID && stat->st_uid != geteuid()) ||
	       (stat->st_mode & S_ISGID && stat->st_mode & S_IXGRP) ||
	       getxattr(path, "security.capability", NULL, 0) > 0;
}

/* May heaptap trace a program that gets rights from its file? The kernel asks for CAP_SYS_PTRACE,
 * which root may lack. */
static bool may_trace_all(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
	return syscall(SYS_capget, &header, data) == 0 && data[0].effective >> CAP_SYS_PTRACE & 1;
}

struct ht_err *rights_check(pid_t pid)
{
	char path[32];
	struct stat stat_of;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (may_trace_all() || stat(path, &stat_of) < 0 || !is_privileged(path, &stat_of))
		return NULL;
	return ht_err_new(HT_ERR_REFUSED,
		"the program has privileges of its own (set-user-ID, capabilities), which it does "
		"not get when heaptap starts it; start it directly, and attach to it as root");
}

/* --- before the exec --- */

static bool is_same(const char *its_path, const char *our_path)
{
	struct stat its, ours;
	return stat(its_path, &its) == 0 && stat(our_path, &ours) == 0 &&
	       its.st_dev == ours.st_dev && its.st_ino == ours.st_ino;
}

/* Does the thread have heaptap's root and mounts? Symbolic links to absolute paths are followed in
 * these. */
static bool has_our_root(pid_t tid)
{
	char root[32], mounts[32];
	snprintf(root, sizeof(root), "/proc/%d/root/", tid);
	snprintf(mounts, sizeof(mounts), "/proc/%d/ns/mnt", tid);
	return is_same(root, "/") && is_same(mounts, "/proc/self/ns/mnt");
}

static void join(pid_t tid, int dir_fd, const char *name, char ret[FULL_BYTES])
{
	if (*name == '/')
		snprintf(ret, FULL_BYTES, "%s", name);
	else if (dir_fd == FD_CWD)
		snprintf(ret, FULL_BYTES, "/proc/%d/cwd/%s", tid, name);
	else
		snprintf(ret, FULL_BYTES, *name ? "/proc/%d/fd/%d/%s" : "/proc/%d/fd/%d", tid,
			dir_fd, name);
}

bool rights_allow_exec(
	const struct proc *proc, pid_t tid, const struct user_regs_struct *regs, bool execveat)
{
	char name[PATH_BYTES] = "", path[FULL_BYTES], interpreter[SHEBANG_BYTES];
	size_t got = 0;
	if (may_trace_all())
		return true;
	bool unread = ht_err_drop(
		memory_read_some(proc, regs_arg(regs, execveat), name, sizeof(name), &got));
	if (unread || !memchr(name, '\0', got) || !has_our_root(tid))
		return false;
	join(tid, execveat ? (int)regs_arg(regs, 0) : FD_CWD, name, path);
	for (unsigned scripts = 0; scripts < SCRIPTS_MAX; scripts++) {
		struct stat stat_of;
		/* A missing file is not executed. */
		if (stat(path, &stat_of) < 0)
			return errno == ENOENT || errno == ENOTDIR;
		if (!S_ISREG(stat_of.st_mode))
			return true;
		if (is_privileged(path, &stat_of) || !shebang_read(path, interpreter))
			return false;
		if (!interpreter[0])
			return true;
		join(tid, FD_CWD, interpreter, path);
	}
	return false;
}
