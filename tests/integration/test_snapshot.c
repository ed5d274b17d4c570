/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle of the others: tests/support/procsnap sees each single thing that heaptap could leave
 * behind, and nothing where there is nothing.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/mounts.h"
#include "tests/support/procsnap.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define FAR_AWAY   ((void *)0x200000000000)
#define PAGE_BYTES 4096
#define STOP_MS	   20000

static int gate[2];

/* Of every child before the first look: a page of a file, a library, and a file. */
static void *page;
static void *library;
static int file_fd;

/* Program text that nothing calls, a word that RELRO protects, and constants. */
static void never_called(void)
{
	abort();
}
static void (*const protected_word)(void) = never_called;
static const char constants[2 * PAGE_BYTES] = "constant";

static bool write_at(const volatile void *at, const void *bytes, size_t count)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	bool written = fd >= 0 && pwrite(fd, bytes, count, (off_t)at) == (ssize_t)count;
	close(fd);
	return written;
}

static bool nothing(void)
{
	return true;
}

static bool map_our_file(void)
{
	int fd = memfd_create("heaptap-1", MFD_CLOEXEC);
	bool mapped =
		fd >= 0 && mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE, fd, 0) != MAP_FAILED;
	close(fd);
	return mapped;
}

static bool map_far_away(void)
{
	return mmap(FAR_AWAY, PAGE_BYTES, PROT_READ,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == FAR_AWAY;
}

static bool protect(void)
{
	return mprotect(page, PAGE_BYTES, PROT_NONE) == 0;
}

static bool unmap(void)
{
	return munmap(page, PAGE_BYTES) == 0;
}

static bool map_page(off_t offset, int flags)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	page = mmap(page, PAGE_BYTES, PROT_READ, MAP_PRIVATE | flags, fd, offset);
	close(fd);
	return page != MAP_FAILED;
}

static bool move_in_file(void)
{
	return map_page(PAGE_BYTES, MAP_FIXED);
}

static bool make_code(void)
{
	return mmap(page, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	       MAP_FAILED;
}

static bool change_code(void)
{
	return write_at((const void *)never_called, "\xcc", 1);
}

static bool change_protected_word(void)
{
	return write_at(&protected_word, "\xcc", 1);
}

static bool change_constant(void)
{
	return write_at(constants, "C", 1);
}

/* The bytes are the same; the page is not the file's any more. */
static bool copy_constant(void)
{
	return write_at(constants, "c", 1);
}

static bool change_slot(void)
{
	struct gotwords words;
	size_t i = 0;
	gotwords_read(getpid(), &words);
	while (i < words.count && words.word[i].lazy)
		i++;
	return i < words.count && write_at((void *)words.word[i].addr, "\xcc", 1);
}

static bool unload(void)
{
	return dlclose(library) == 0;
}

/* Of a whole mapping, which so stays one. */
static bool advise(void)
{
	return madvise(page, PAGE_BYTES, MADV_DONTDUMP) == 0;
}

static bool lock(void)
{
	return syscall(SYS_mlock, page, PAGE_BYTES) == 0; /* a sanitizer keeps mlock back */
}

static bool map_beside(void)
{
	return mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static bool open_our_file(void)
{
	return memfd_create("heaptap-1", MFD_CLOEXEC) >= 0;
}

static bool open_descriptor(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) >= 0;
}

static bool read_file(void)
{
	char byte;
	return read(file_fd, &byte, 1) == 1;
}

static bool lock_file(void)
{
	return fcntl(file_fd, F_SETLK, &(struct flock){.l_type = F_RDLCK}) == 0;
}

static volatile bool opened;

static void *open_in_own_table(void *arg)
{
	opened = unshare(CLONE_FILES) == 0 && open_descriptor();
	pause();
	return arg;
}

static bool open_descriptor_of_thread(void)
{
	bool started = pthread_create(&(pthread_t){0}, NULL, open_in_own_table, NULL) == 0;
	while (started && !opened)
		sched_yield();
	return started;
}

static bool change_descriptor(void)
{
	return fcntl(gate[1], F_SETFL, O_NONBLOCK) == 0;
}

static void *wait_here(void *arg)
{
	pause();
	return arg;
}

static bool start_thread(void)
{
	return pthread_create(&(pthread_t){0}, NULL, wait_here, NULL) == 0;
}

static bool change_mask(int how, int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	return sigprocmask(how, &set, NULL) == 0;
}

static bool block_signal(void)
{
	return change_mask(SIG_BLOCK, SIGUSR1);
}

static bool ignore_signal(void)
{
	return signal(SIGUSR1, SIG_IGN) != SIG_ERR;
}

static bool signal_thread(void)
{
	return raise(SIGUSR2) == 0;
}

static bool signal_process(void)
{
	return kill(getpid(), SIGUSR2) == 0;
}

static bool catch_signal(void)
{
	return signal(SIGUSR1, (sighandler_t)never_called) != SIG_ERR;
}

static bool grow_table(void)
{
	return fcntl(gate[0], F_DUPFD_CLOEXEC, 900) >= 900;
}

static bool stop(void)
{
	return write(gate[0], "x", 1) == 1 && raise(SIGSTOP) == 0;
}

static void trace(const void *arg)
{
	const pid_t *pid = arg;
	if (ptrace(PTRACE_SEIZE, *pid, NULL, NULL) < 0)
		_exit(1);
	child_ready(1);
	child_wait();
}

static bool get_tracer(void)
{
	static pid_t own;
	own = getpid();
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	return child_fork(trace, &own).value == 1;
}

static bool change_robust_list(void)
{
	static struct {
		void *words[3];
	} head;
	head.words[0] = &head;
	return syscall(SYS_set_robust_list, &head, sizeof(head)) == 0;
}

static bool enter_filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool leave_core(void)
{
	cpu_set_t cores;
	CPU_ZERO(&cores);
	CPU_SET(sched_getcpu(), &cores);
	return sched_setaffinity(0, sizeof(cores), &cores) == 0;
}

static bool leave_large_pages(void)
{
	return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0;
}

/* Another of each, and the capabilities stay. */
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

/* Of those to come: its own a process never leaves. */
static bool change_pid_namespace(void)
{
	return unshare(CLONE_NEWPID) == 0;
}

static bool change_session(void)
{
	return setsid() > 0;
}

/* A shell, which tells and waits in our place. */
static bool change_program(void)
{
	char fd[16];
	snprintf(fd, sizeof(fd), "%d", gate[0]);
	execl("/bin/sh", "sh", "-c", "echo >&$0; read line <&$0", fd, NULL);
	return false;
}

struct change {
	bool (*make)(void);
	const char *seen;  /* what a line of the difference begins with; NULL: nothing differs */
	const char *field; /* of that line, which differs; NULL: any */
	bool root;	   /* only root can make it */
};

static const struct change changes[] = {
	{nothing, NULL, NULL, false},
	{map_our_file, "mapping", NULL, false},
	{map_far_away, "mapping", NULL, false},
	{protect, "mapping", NULL, false},
	{unmap, "mapping", NULL, false},
	{move_in_file, "mapping", NULL, false},
	{make_code, "mapping", NULL, false},
	{change_slot, "slot", NULL, false},
	{unload, "slot", NULL, false},
	{change_code, "text", NULL, false},
	{change_protected_word, "text", NULL, false},
	{change_constant, "text", NULL, false},
	{copy_constant, "pages", NULL, false},
	{advise, "pages", NULL, false},
	{lock, "pages", NULL, false},
	{open_descriptor, "descriptor", NULL, false},
	{change_descriptor, "descriptor", "flags:", false},
	{read_file, "descriptor", "pos:", false},
	{lock_file, "descriptor", NULL, false},
	{open_descriptor_of_thread, "descriptor task/", NULL, false},
	{start_thread, "thread", NULL, false},
	{block_signal, "thread", "SigBlk:", false},
	{ignore_signal, "thread", "SigIgn:", false},
	{catch_signal, "thread", "SigCgt:", false},
	{signal_thread, "thread", "SigPnd:", false},
	{signal_process, "thread", "ShdPnd:", false},
	{stop, "thread", NULL, false},
	{get_tracer, "thread", "TracerPid:", false},
	{lock, "thread", "VmLck:", false},
	{change_robust_list, "thread", "robust", false},
	{change_turns, "thread", "policy", false},
	{change_nice, "thread", "nice", false},
	{leave_large_pages, "thread", "THP_enabled:", false},
	{grow_table, "thread", "FDSize:", false},
	{change_privileges, "thread", "NoNewPrivs:", false},
	{enter_filter, "thread", "Seccomp:", false},
	{enter_filter, "thread", "Seccomp_filters:", false},
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

/* Where each session has a group of its own for the scheduler. */
static const struct change session_change = {change_session, "process autogroup", NULL, false};

/* Where there is one core it cannot be left. */
static const struct change core_change = {leave_core, "thread", "Cpus_allowed:", false};

static void make_change(const void *arg)
{
	const struct change *change = arg;
	char go;
	change_mask(SIG_BLOCK, SIGUSR2);
	library = dlopen(run_built("tests/targets/libplug.so"), RTLD_NOW);
	file_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (!library || !map_page(0, 0) || file_fd < 0)
		_exit(1);
	child_ready(0);
	if (read(gate[0], &go, 1) != 1 || !change->make() || write(gate[0], "x", 1) != 1)
		_exit(1);
	child_wait();
}

/* Of a line that says what was and what is: where they begin to differ, no other name has begun. */
static bool field_differs(const char *line, const char *field)
{
	const char *is = strstr(line, "\", is \"");
	const char *old = strstr(line, field), *now = is ? strstr(is, field) : NULL;
	if (!old || !now || old > is)
		return false;
	old += strlen(field);
	now += strlen(field);
	while (*old == *now && *old != ':' && *old != '\n')
		old++, now++;
	return *old != *now;
}

static bool has_line(const char *text, const char *beginning, const char *field)
{
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, beginning, strlen(beginning)) &&
			(!field || field_differs(line, field)))
			return true;
	return false;
}

static void check_change(const struct change *change, size_t number, unsigned flags)
{
	char done;
	if (change->root && geteuid() != 0) {
		printf("skipped: snapshot: only root can make change %zu\n", number);
		return;
	}
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, gate), 0);
	struct child child = child_fork(make_change, change);
	struct procsnap *before = procsnap_take(child.pid, flags);
	ck_assert_int_eq(write(gate[1], "x", 1), 1);
	ck_assert_msg(read(gate[1], &done, 1) == 1, "change %zu was not made", number);
	if (change->make == stop)
		run_until(child_state(child.pid) == 'T', STOP_MS);
	struct procsnap *after = procsnap_take(child.pid, flags);
	char *difference = procsnap_diff(before, after);
	ck_assert_msg(
		change->seen ? has_line(difference, change->seen, change->field) : !difference[0],
		"change %zu: \"%s\"", number, difference);
	free(difference);
	procsnap_destroy(before);
	procsnap_destroy(after);
	child_kill(&child);
	close(gate[0]);
	close(gate[1]);
}

START_TEST(each_change_is_seen)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(changes); i++)
		check_change(&changes[i], i, 0);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		check_change(&core_change, HT_ARRAY_SIZE(changes), 0);
	if (access("/proc/self/autogroup", R_OK) == 0)
		check_change(&session_change, HT_ARRAY_SIZE(changes) + 1, 0);
	else
		printf("skipped: snapshot: this kernel has no autogroups\n");
}
END_TEST

static void just_wait(const void *arg)
{
	(void)arg;
	child_ready(0);
	child_wait();
}

/* What not every machine can change: a file of ours stands in the kernel's place. */
START_TEST(each_change_that_is_told_is_seen)
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
		struct child child = child_fork(just_wait, NULL);
		snprintf(path, sizeof(path), told[i].path, child.pid, child.pid);
		files_write(file, told[i].was);
		ck_assert_int_eq(mount(file, path, NULL, MS_BIND, NULL), 0);
		struct procsnap *before = procsnap_take(child.pid, 0);
		files_write(file, told[i].is);
		struct procsnap *after = procsnap_take(child.pid, 0);
		char *difference = procsnap_diff(before, after);
		ck_assert_msg(has_line(difference, told[i].seen, told[i].field), "%s: \"%s\"", path,
			difference);
		free(difference);
		procsnap_destroy(before);
		procsnap_destroy(after);
		child_kill(&child);
	}
	free(file);
}
END_TEST

/* Beside its other memory, where the kernel puts it. */
START_TEST(what_a_still_program_maps_is_seen)
{
	static const struct change still = {nothing, NULL, NULL, false},
				   seen = {map_beside, "mapping", NULL, false},
				   unseen = {map_beside, NULL, NULL, false};
	check_change(&still, 0, PROCSNAP_STILL);
	check_change(&seen, 1, PROCSNAP_STILL);
	check_change(&unseen, 2, 0);
}
END_TEST

/* Also where a program may load libraries, or open files. */
START_TEST(what_is_ours_is_always_seen)
{
	static const struct change mapped = {map_our_file, "mapping", NULL, false},
				   held = {open_our_file, "descriptor", NULL, false},
				   loaded = {make_code, NULL, NULL, false},
				   other = {open_descriptor, NULL, NULL, false};
	check_change(&mapped, 0, PROCSNAP_MODULES_GROW);
	check_change(&held, 1, PROCSNAP_FDS_CHANGE);
	check_change(&loaded, 2, PROCSNAP_MODULES_GROW);
	check_change(&other, 3, PROCSNAP_FDS_CHANGE);
}
END_TEST

HT_SUITE("integration/snapshot", each_change_is_seen, each_change_that_is_told_is_seen,
	what_a_still_program_maps_is_seen, what_is_ours_is_always_seen)
