/* SPDX-License-Identifier: Apache-2.0
 *
 * Like test_snapshot: tests/support/procsnap shows changes of the whole process and of its
 * privileges, and changes that only the kernel can make.
 */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/mounts.h"
#include "tests/support/procsnap.h"
#include "tests/support/snapchange.h"
#include "tests/support/tmpdir.h"

/* Changes UID, GID and groups, but keeps the capabilities. */
static bool change_user(void)
{
	const gid_t group = 4;
	return prctl(PR_SET_SECUREBITS, 1 << 2 /* SECBIT_NO_SETUID_FIXUP */) == 0 &&
	       setgroups(1, &group) == 0 && setresgid(5, 5, 5) == 0 && setresuid(6, 6, 6) == 0;
}

static bool change_capabilities(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];
	if (prctl(PR_CAPBSET_DROP, CAP_SYSLOG) < 0 || syscall(SYS_capget, &header, data) < 0)
		return false;
	data[0].inheritable = 1u << CAP_KILL;
	data[0].permitted &= ~(1u << CAP_SYS_BOOT);
	data[0].effective &= ~(1u << CAP_SYS_BOOT);
	return syscall(SYS_capset, &header, data) == 0 &&
	       prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0) == 0;
}

static bool change_turns(void)
{
	return sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}) == 0;
}

static bool change_nice(void)
{
	return setpriority(PRIO_PROCESS, 0, 5) == 0;
}

static bool change_slack(void)
{
	return prctl(PR_SET_TIMERSLACK, 12345) == 0;
}

static bool change_privileges(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

static bool change_limit(void)
{
	return setrlimit(RLIMIT_NOFILE, &(struct rlimit){99, 99}) == 0;
}

static bool change_directory(void)
{
	return chdir("/proc") == 0;
}

static bool write_own(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return written;
}

static bool change_personality(void)
{
	return personality(ADDR_NO_RANDOMIZE) >= 0;
}

static bool change_badness(void)
{
	return write_own("/proc/self/oom_score_adj", "500");
}

static bool change_core_dump(void)
{
	return write_own("/proc/self/coredump_filter", "1");
}

static bool change_root(void)
{
	return chroot("/proc") == 0;
}

static bool change_namespaces(void)
{
	return unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
		       CLONE_NEWCGROUP) == 0;
}

static bool change_user_namespace(void)
{
	return unshare(CLONE_NEWUSER) == 0;
}

/* Affects only future children: a process never leaves its own PID namespace. */
static bool change_pid_namespace(void)
{
	return unshare(CLONE_NEWPID) == 0;
}

static bool change_session(void)
{
	return setsid() > 0;
}

/* Execs a shell, which writes to the gate and waits in this process's place. */
static bool change_program(void)
{
	char fd[16];
	snprintf(fd, sizeof(fd), "%d", snapchange_gate);
	execl("/bin/sh", "sh", "-c", "echo >&$0; read line <&$0", fd, NULL);
	return false;
}

static const struct snapchange changes[] = {
	{change_turns, "thread", "policy", false},
	{change_nice, "thread", "nice", false},
	{change_privileges, "thread", "NoNewPrivs:", false},
	{change_user, "thread", "Uid:", true},
	{change_user, "thread", "Gid:", true},
	{change_user, "thread", "Groups:", true},
	{change_capabilities, "thread", "CapInh:", true},
	{change_capabilities, "thread", "CapPrm:", true},
	{change_capabilities, "thread", "CapEff:", true},
	{change_capabilities, "thread", "CapBnd:", true},
	{change_capabilities, "thread", "CapAmb:", true},
	{change_slack, "process timerslack_ns", NULL, false},
	{change_limit, "process limits", NULL, false},
	{change_personality, "process personality", NULL, false},
	{change_badness, "process oom_score_adj", NULL, false},
	{change_core_dump, "process coredump_filter", NULL, false},
	{change_directory, "process cwd", NULL, false},
	{change_root, "process root", NULL, true},
	{change_namespaces, "process ns/mnt", NULL, true},
	{change_namespaces, "process ns/net", NULL, true},
	{change_namespaces, "process ns/ipc", NULL, true},
	{change_namespaces, "process ns/uts", NULL, true},
	{change_namespaces, "process ns/cgroup", NULL, true},
	{change_user_namespace, "process ns/user", NULL, true},
	{change_pid_namespace, "process ns/pid_for_children", NULL, true},
	{change_program, "process exe", NULL, false},
};

/* Needs a kernel with autogroups. */
static const struct snapchange session_change = {change_session, "process autogroup", NULL, false};

HT_TEST(each_change_is_seen)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(changes); i++)
		snapchange_check(&changes[i], NULL, i, 0);
	if (access("/proc/self/autogroup", R_OK) == 0)
		snapchange_check(&session_change, NULL, HT_ARRAY_SIZE(changes), 0);
	else
		printf("skipped: snapshot: this kernel has no autogroups\n");
}

/* Changes that not every machine can make: mounts a file of the test over that of the kernel. */
HT_TEST(sees_each_listed_change)
{
	static const struct told {
		const char *path, *was, *is, *seen, *field;
	} told[] = {
		{"/proc/%d/cgroup", "0::/\n", "0::/other\n", "process cgroup", NULL},
		{"/proc/%d/task/%d/status", "x86_Thread_features:\t\n",
			"x86_Thread_features:\tshstk \n", "thread", "x86_Thread_features:"},
		{"/proc/%d/task/%d/status", "VmPin:\t0 kB\n", "VmPin:\t4 kB\n", "thread", "VmPin:"},
		{"/proc/sys/kernel/tainted", "0\n", "512\n", "process tainted", NULL},
	};
	char *file = tmpdir_path("told");
	if (!mounts_unshare()) {
		printf("skipped: snapshot: no mount namespace may be made\n");
		return;
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(told); i++) {
		char path[64];
		struct child child = child_fork(child_idle, NULL);
		snprintf(path, sizeof(path), told[i].path, child.pid, child.pid);
		files_write(file, told[i].was);
		ck_assert_int_eq(mount(file, path, NULL, MS_BIND, NULL), 0);
		struct procsnap *before = procsnap_take(child.pid, 0);
		files_write(file, told[i].is);
		struct procsnap *after = procsnap_take(child.pid, 0);
		char *difference = procsnap_diff(before, after);
		ck_assert_msg(snapchange_is_shown(difference, told[i].seen, told[i].field),
			"%s: \"%s\"", path, difference);
		free(difference);
		procsnap_destroy(before);
		procsnap_destroy(after);
		child_kill(&child);
	}
	free(file);
}

/* PROCSNAP_FILTERED allows seccomp filters, and no other change. */
HT_TEST(allows_a_declared_filter)
{
	static const struct snapchange filter = {change_privileges, NULL, NULL, false};
	snapchange_check(&filter, NULL, 0, PROCSNAP_FILTERED);
	for (size_t i = 0; i < HT_ARRAY_SIZE(changes); i++)
		if (changes[i].make != change_privileges)
			snapchange_check(&changes[i], NULL, i, PROCSNAP_FILTERED);
}

static void forget(pid_t pid)
{
	procsnap_take(pid, 0);
}

static void forget_and_destroy(pid_t pid)
{
	procsnap_destroy(procsnap_take(pid, 0));
}

static void drop(pid_t pid)
{
	procsnap_drop(procsnap_take(pid, 0));
}

static void verify(pid_t pid)
{
	procsnap_verify(procsnap_take(pid, 0), pid);
}

/* The exit status of a test that calls `use`. */
static int status_after(void (*use)(pid_t), pid_t pid)
{
	int status;
	pid_t test = fork();
	ck_assert_int_ge(test, 0);
	if (!test) {
		use(pid);
		exit(EXIT_SUCCESS);
	}
	ck_assert_int_eq(waitpid(test, &status, 0), test);
	return status;
}

HT_TEST(uncompared_snapshot_fails_the_test)
{
	struct child child = child_fork(child_idle, NULL);
	ck_assert_int_ne(status_after(forget, child.pid), 0);
	ck_assert_int_ne(status_after(forget_and_destroy, child.pid), 0);
	ck_assert_int_eq(status_after(drop, child.pid), 0);
	ck_assert_int_eq(status_after(verify, child.pid), 0);
	child_kill(&child);
}

HT_SUITE("integration/snapshot_process")
