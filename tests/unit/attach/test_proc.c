/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/memory/proc_maps.h"
#include "attach/proc/permission.h"
#include "attach/proc/proc_living.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

#define NOBODY 65534

static struct proc opened(pid_t pid)
{
	struct proc proc;
	ck_no_err(proc_open(pid, &proc));
	return proc;
}

HT_TEST(own_process)
{
	struct proc proc = opened(getpid());
	struct proc_status status;
	ck_no_err(proc_open_mem(&proc));
	ck_no_err(proc_status(&proc, 0, &status));
	ck_assert_int_eq(status.ppid, getppid());
	ck_assert_uint_eq(status.euid, geteuid());
	ck_assert_uint_eq(status.egid, getegid());
	ck_assert_uint_eq(status.threads, 1);
	ck_assert_int_eq(status.ns_tid, getpid());
	ck_assert_int_eq(status.tracer, 0);
	ck_assert_uint_gt(status.rss_bytes, 4096);
	ck_assert_uint_gt(proc.start_ticks, 0);
	ck_assert_int_eq(proc_changed(&proc), PROC_SAME);
	proc_close(&proc);
	proc_close(&proc);
	struct proc zeroed = {0};
	proc_close(&zeroed);
}

HT_TEST(not_a_process)
{
	struct proc proc;
	ck_err_says(proc_open(0, &proc), HT_ERR_REFUSED, "not a PID");
	ck_err_says(proc_open(-5, &proc), HT_ERR_REFUSED, "not a PID");
	ck_err_says(proc_open(1 << 30, &proc), HT_ERR_REFUSED, "no process with PID");
}

HT_TEST(kernel_thread)
{
	char comm[64] = "";
	struct proc proc;
	FILE *file = fopen("/proc/2/comm", "re");
	if (file) {
		ck_assert_ptr_nonnull(fgets(comm, sizeof(comm), file));
		fclose(file);
	}
	if (strcmp(comm, "kthreadd\n") != 0) {
		printf("skipped: proc: a PID namespace without kernel threads\n");
		return;
	}
	ck_err_says(proc_open(2, &proc), HT_ERR_REFUSED, "kernel thread");
}

static void *thread_body(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "wor) S 1\n(ker");
	child_ready(syscall(SYS_gettid));
	child_wait();
}

static void with_thread(const void *arg)
{
	bool leader_ends = arg != NULL;
	pthread_t thread;
	pthread_create(&thread, NULL, thread_body, NULL);
	if (leader_ends)
		pthread_exit(NULL);
	child_wait();
}

static pid_t other_tid(const struct proc *proc)
{
	struct proc_tids tids;
	ck_no_err(proc_tids_read(proc, &tids));
	ck_assert_uint_eq(tids.count, 2);
	ck_assert_int_eq(tids.tid[0], proc->pid);
	pid_t tid = tids.tid[1];
	proc_tids_deinit(&tids);
	return tid;
}

HT_TEST(thread_is_refused_and_its_process_named)
{
	struct child child = child_fork(with_thread, NULL);
	struct proc proc = opened(child.pid), thread;
	pid_t tid = other_tid(&proc);
	char words[64];
	snprintf(words, sizeof(words), "attach to the process: -p %d", child.pid);
	ck_err_says(proc_open(tid, &thread), HT_ERR_REFUSED, words);
	proc_close(&proc);
	child_kill(&child);
}

static void wait_for_state(const struct proc *proc, pid_t tid, char state)
{
	char path[64], line[128];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", proc->pid, tid);
	for (bool seen = false; !seen;) {
		FILE *file = fopen(path, "re");
		ck_assert_ptr_nonnull(file);
		while (fgets(line, sizeof(line), file))
			seen |= !strncmp(line, "State:\t", 7) && line[7] == state;
		fclose(file);
	}
}

HT_TEST(zombie_leader_works_through_a_living_thread)
{
	struct child child = child_fork(with_thread, "end the leader");
	struct proc early = opened(child.pid);
	wait_for_state(&early, child.pid, 'Z');
	struct proc late = opened(child.pid);
	struct proc *both[] = {&early, &late};
	for (size_t i = 0; i < 2; i++) {
		struct proc *proc = both[i];
		struct proc_maps maps;
		struct proc_status status;
		struct proc_syscall where;
		char *exe;
		ck_no_err(proc_open_mem(proc));
		ck_no_err(proc_maps_read(proc, &maps));
		ck_assert_ptr_nonnull(proc_maps_find(&maps, (raddr_t)(uintptr_t)opened));
		proc_maps_deinit(&maps);
		ck_no_err(proc_status(proc, 0, &status));
		ck_assert_int_ne(status.state, 'Z');
		ck_assert_uint_gt(status.rss_bytes, 0);
		ck_no_err(proc_link(proc, "exe", &exe));
		ck_assert_ptr_nonnull(strstr(exe, "test_proc"));
		free(exe);
		ck_no_err(proc_syscall_read(proc, child.pid, &where));
		ck_assert_int_eq(where.where, PROC_THREAD_GONE);
		ck_assert_int_eq(proc_changed(proc), PROC_SAME);
	}
	ck_assert_uint_gt(late.exe_ino, 0);
	ck_assert_uint_eq(late.exe_ino, early.exe_ino);
	proc_close(&early);
	proc_close(&late);
	child_kill(&child);
}

static void hostile_name(const void *arg)
{
	prctl(PR_SET_NAME, arg);
	child_ready(0);
	child_wait();
}

HT_TEST(hostile_names)
{
	static const char *const names[] = {
		"a) Z 1 1 1", "(((", ")", "x\nState:\tZ", "\x1b[31m", ""};
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++) {
		struct child child = child_fork(hostile_name, names[i]);
		struct proc proc = opened(child.pid);
		struct proc_status status;
		wait_for_state(&proc, child.pid, 'S');
		ck_no_err(proc_status(&proc, 0, &status));
		ck_assert_int_eq(status.state, 'S');
		ck_assert_int_eq(status.ppid, getpid());
		proc_close(&proc);
		child_kill(&child);
	}
}

HT_TEST(zombie)
{
	struct child child = child_fork(child_idle, NULL);
	struct proc before = opened(child.pid), proc;
	kill(child.pid, SIGKILL);
	siginfo_t info;
	ck_assert_int_eq(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0);
	ck_err_says(proc_open(child.pid, &proc), HT_ERR_REFUSED, "zombie");
	ck_assert_int_eq(proc_changed(&before), PROC_EXITED);
	child_kill(&child);
	proc_close(&before);
}

static void assert_gone(struct ht_err *err)
{
	ck_err_says(err, HT_ERR_TARGET_GONE, "has ended");
}

HT_TEST(everything_says_gone)
{
	struct child child = child_fork(child_idle, NULL);
	struct proc proc = opened(child.pid);
	child_kill(&child);
	struct proc_status status;
	struct proc_maps maps;
	struct proc_tids tids;
	struct proc_syscall where;
	char *text;
	ck_assert_int_eq(proc_changed(&proc), PROC_EXITED);
	assert_gone(proc_open_mem(&proc));
	assert_gone(proc_status(&proc, 0, &status));
	assert_gone(proc_status(&proc, proc.pid, &status));
	assert_gone(proc_maps_read(&proc, &maps));
	assert_gone(proc_tids_read(&proc, &tids));
	assert_gone(proc_syscall_read(&proc, proc.pid, &where));
	assert_gone(proc_text(&proc, "auxv", &text));
	assert_gone(proc_link(&proc, "exe", &text));
	proc_close(&proc);
}

static int exec_gate[2];

static void exec_on_demand(const void *arg)
{
	char byte;
	child_ready(0);
	if (read(exec_gate[0], &byte, 1) == 1)
		execlp(arg, arg, "1000", NULL);
	_exit(1);
}

HT_TEST(exec_is_noticed)
{
	/* Once into another program with the memory open, once without. */
	for (int mem = 0; mem < 2; mem++) {
		ck_assert_int_eq(pipe2(exec_gate, O_CLOEXEC), 0);
		struct child child = child_fork(exec_on_demand, "sleep");
		struct proc proc = opened(child.pid);
		if (mem)
			ck_no_err(proc_open_mem(&proc));
		ck_assert_int_eq(proc_changed(&proc), PROC_SAME);
		ck_assert_int_eq(write(exec_gate[1], "x", 1), 1);
		close(exec_gate[0]);
		close(exec_gate[1]);
		char byte;
		ck_assert_int_eq(read(child.ready_fd, &byte, 1), 0);
		ck_assert_int_eq(proc_changed(&proc), PROC_EXECED);
		proc_close(&proc);
		child_kill(&child);
	}
}

enum { MANY_PAGES = 4000 };

/* Makes MANY_PAGES / 2 readable mappings: every second page of a reservation. */
static uint8_t *many_mappings(void)
{
	uint8_t *many =
		mmap(NULL, MANY_PAGES * 4096ul, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(many, MAP_FAILED);
	for (size_t i = 0; i < MANY_PAGES; i += 2)
		ck_assert_int_eq(mprotect(many + i * 4096, 4096, PROT_READ), 0);
	return many;
}

HT_TEST(maps_are_complete)
{
	char dir[] = "/tmp/proc-test-XXXXXX", path[128];
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a b\nc (deleted)", dir);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	ck_assert_int_eq(ftruncate(fd, 8192), 0);
	uint8_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	uint8_t *many = many_mappings();
	struct proc proc = opened(getpid());
	struct proc_maps maps;
	ck_no_err(proc_maps_read(&proc, &maps));
	for (size_t i = 1; i < maps.count; i++)
		ck_assert_uint_le(maps.map[i - 1].hi, maps.map[i].lo);
	for (size_t i = 0; i < MANY_PAGES; i++) {
		const struct proc_map *map =
			proc_maps_find(&maps, (raddr_t)(uintptr_t)(many + i * 4096 + 5));
		ck_assert_ptr_nonnull(map);
		ck_assert_int_eq(map->read, i % 2 == 0);
	}
	const struct proc_map *map = proc_maps_find(&maps, (raddr_t)(uintptr_t)shared);
	ck_assert_ptr_nonnull(map);
	ck_assert(map->read && map->write && !map->exec && map->shared);
	ck_assert_uint_eq(map->offset, 4096);
	ck_assert_ptr_nonnull(strstr(map->name, "/a b\\012c (deleted)"));
	const struct proc_map *code = proc_maps_find(&maps, (raddr_t)(uintptr_t)opened);
	ck_assert(code->exec && !code->write && !code->shared && code->inode);
	ck_assert_ptr_null(proc_maps_find(&maps, 0));
	ck_assert_ptr_null(proc_maps_find(&maps, UINT64_MAX));
	ck_assert_ptr_null(proc_maps_find(&(struct proc_maps){0}, 1));
	proc_maps_deinit(&maps);
	proc_close(&proc);
	unlink(path);
	rmdir(dir);
}

/* If /proc/PID/map_files cannot be used, the file is opened by name: here a copy of the mapping has
 * a range that does not exist. */
HT_TEST(the_file_of_a_mapping_opens)
{
	struct proc proc = opened(getpid());
	struct proc_maps maps;
	struct stat own, got;
	int fd;
	ck_assert_int_eq(stat("/proc/self/exe", &own), 0);
	ck_no_err(proc_maps_read(&proc, &maps));
	struct proc_map map = *proc_maps_find(&maps, (raddr_t)(uintptr_t)opened);
	for (int by_name = 0; by_name < 2; by_name++) {
		ck_no_err(proc_open_mapped(&proc, &map, &fd));
		ck_assert_int_eq(fstat(fd, &got), 0);
		ck_assert(got.st_ino == own.st_ino && got.st_dev == own.st_dev);
		close(fd);
		map.hi = map.lo + 1;
	}
	map.inode++;
	ck_err_says(proc_open_mapped(&proc, &map, &fd), HT_ERR_INCOMPLETE, map.name);
	map.name = "/dev/null";
	ck_err(proc_open_mapped(&proc, &map, &fd), HT_ERR_INCOMPLETE);
	map.name = "";
	ck_err(proc_open_mapped(&proc, &map, &fd), HT_ERR_INCOMPLETE);
	proc_maps_deinit(&maps);
	proc_close(&proc);
}

static void spin(const void *arg)
{
	(void)arg;
	child_ready(0);
	for (;;)
		__asm__ volatile("pause");
}

HT_TEST(syscall_of_threads)
{
	struct child child = child_fork(with_thread, NULL);
	struct proc proc = opened(child.pid);
	struct proc_syscall where;
	wait_for_state(&proc, child.pid, 'S');
	ck_no_err(proc_syscall_read(&proc, child.pid, &where));
	ck_assert_int_eq(where.where, PROC_IN_SYSCALL);
	ck_assert_int_eq(where.nr, SYS_pause);
	ck_assert_uint_ne(where.sp, 0);
	ck_assert_uint_ne(where.pc, 0);
	ck_no_err(proc_syscall_read(&proc, getpid(), &where));
	ck_assert_int_eq(where.where, PROC_THREAD_GONE);
	proc_close(&proc);
	child_kill(&child);

	child = child_fork(spin, NULL);
	proc = opened(child.pid);
	wait_for_state(&proc, child.pid, 'R');
	ck_no_err(proc_syscall_read(&proc, child.pid, &where));
	ck_assert_int_eq(where.where, PROC_RUNNING);
	proc_close(&proc);
	child_kill(&child);
}

/* A process that cannot be read is an error: it does not mean that the thread is gone. */
HT_TEST(unreadable_process_is_not_gone)
{
	struct child child = child_fork(with_thread, NULL);
	struct proc proc = opened(child.pid);
	struct proc_syscall where;
	struct proc_status status;
	pid_t tid = other_tid(&proc), living;
	bool is;
	ck_no_err(proc_has_thread(&proc, tid, &is));
	ck_assert(is);
	ck_no_err(proc_has_thread(&proc, getpid(), &is));
	ck_assert(!is);
	ck_no_err(proc_status_listed(&proc, getpid(), &status, &is));
	ck_assert(!is);
	rlim_t usual = deny_files();
	ck_err(proc_syscall_read(&proc, tid, &where), HT_ERR_SYS);
	ck_err(proc_living_tid(&proc, &living), HT_ERR_SYS);
	ck_err(proc_status_listed(&proc, tid, &status, &is), HT_ERR_SYS);
	allow_files(usual);
	deny_calls(SYS_faccessat, ENOMEM);
	deny_calls(SYS_faccessat2, ENOMEM);
	ck_err(proc_has_thread(&proc, getpid(), &is), HT_ERR_SYS);
	proc_close(&proc);
	child_kill(&child);
}

HT_TEST(text_has_a_limit)
{
	struct proc proc = opened(getpid());
	char *text;
	ck_no_err(proc_text(&proc, "comm", &text));
	ck_assert_ptr_nonnull(strchr(text, '\n'));
	free(text);
	struct ht_err *err = proc_text(&proc, "no-such-file", &text);
	ck_assert_ptr_nonnull(err);
	ck_assert_int_eq(err->code, HT_ERR_SYS);
	ht_err_free(err);
	many_mappings();
	err = proc_text(&proc, "smaps", &text);
	ck_err_says(err, HT_ERR_FORMAT, "longer than");
	proc_close(&proc);
}

static void undumpable(const void *arg)
{
	(void)arg;
	if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) != 0)
		_exit(1);
	prctl(PR_SET_DUMPABLE, 0);
	child_ready(0);
	child_wait();
}

/* Opens process *arg as an ordinary user and reports what the message names. */
static void judge_as_nobody(const void *arg)
{
	struct proc proc;
	if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) != 0)
		_exit(1);
	struct ht_err *err = proc_open(*(const pid_t *)arg, &proc);
	HT_THEN(err, proc_open_mem(&proc));
	long rule = -1;
	if (err && err->code == HT_ERR_PERMISSION)
		rule = strstr(err->message, "runs as uid")    ? 1
		       : strstr(err->message, "not dumpable") ? 2
							      : 3;
	child_ready(rule);
}

static long rule_named(pid_t pid)
{
	struct child child = child_fork(judge_as_nobody, &pid);
	child_kill(&child);
	return child.value;
}

HT_TEST(kernel_refusals_name_the_rule)
{
	struct child hidden = child_fork(undumpable, NULL);
	ck_assert_int_eq(rule_named(hidden.pid), 2);
	if (geteuid() == 0)
		ck_assert_int_eq(rule_named(getpid()), 1);
	child_kill(&hidden);
}

HT_TEST(each_rule_is_named)
{
	const struct permission_facts same = {.pid = 7,
		.comm = "x",
		.our_euid = 1000,
		.target_ruid = 1000,
		.target_euid = 1000,
		.target_suid = 1000,
		.same_user_ns = true,
		.dumpable = true,
		.yama_scope = -1};
	struct permission_facts facts = same;
	facts.target_euid = 0;
	ck_err_says(permission_judge(&facts), HT_ERR_PERMISSION, "runs as uid 0");
	facts = same;
	facts.target_suid = 5;
	ck_err_says(permission_judge(&facts), HT_ERR_PERMISSION, "runs as uid 5");
	facts = same;
	facts.dumpable = false;
	ck_err_says(permission_judge(&facts), HT_ERR_PERMISSION, "not dumpable");
	facts = same;
	facts.more_caps = true;
	ck_err_says(permission_judge(&facts), HT_ERR_PERMISSION, "capabilities that heaptap");
	facts = same;
	for (int scope = 1; scope <= 3; scope++) {
		static const char *const words[] = {
			"ancestors", "only root", "no process may attach"};
		facts.yama_scope = scope;
		ck_err_says(permission_judge(&facts), HT_ERR_PERMISSION, words[scope - 1]);
	}
	facts.our_cap_sys_ptrace = true;
	ck_err_says(permission_judge(&facts), HT_ERR_PERMISSION, "no process may attach");
	facts.yama_scope = 2;
	ck_err_says(permission_judge(&facts), HT_ERR_PERMISSION, "security module");
	facts.same_user_ns = false;
	ck_err_says(permission_judge(&facts), HT_ERR_PERMISSION, "user namespace");
}

/* On a kernel with proc_mem.force_override=never such a write fails with EIO. */
HT_TEST(memory_that_is_not_writable)
{
	ck_no_err(permission_check_writing(getpid()));
	deny_calls(SYS_pwrite64, EIO);
	ck_err_says(permission_check_writing(getpid()), HT_ERR_PERMISSION, "force_override");
}

HT_TEST(soft_limits)
{
	struct proc proc = opened(getpid());
	struct rlimit files = {77, 99}, size = {RLIM_INFINITY, RLIM_INFINITY};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &size), 0);
	ck_assert_uint_eq(proc_limit(&proc, "Max open files"), 77);
	ck_assert_uint_eq(proc_limit(&proc, "Max file size"), UINT64_MAX);
	size.rlim_cur = 5000000000;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &size), 0);
	ck_assert_uint_eq(proc_limit(&proc, "Max file size"), 5000000000);
	ck_assert_uint_eq(proc_limit(&proc, "Max patience"), UINT64_MAX);
	proc_close(&proc);
}

/* The kernel says which thread is a worker (tests/integration/test_stub_thread.c), not its name. */
HT_TEST(a_name_makes_no_worker)
{
	static const char *const names[] = {"iou-wrk-1", "iou-sqp-1", "vhost-1"};
	struct proc proc = opened(getpid());
	bool worker = true;
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++) {
		prctl(PR_SET_NAME, names[i]);
		ck_no_err(proc_is_worker(&proc, getpid(), &worker));
		ck_assert(!worker);
	}
	ck_no_err(proc_is_worker(&proc, 1, &worker));
	ck_assert(!worker);
	proc_close(&proc);
}

HT_SUITE("attach/proc/proc")
