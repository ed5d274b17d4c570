/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the snapshots on which other tests depend: tests/support/procsnap shows each single change
 * that heaptap could leave behind, and no other difference. Changes of the whole process and of its
 * privileges: test_snapshot_process.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/run.h"
#include "tests/support/snapchange.h"

#define FAR_AWAY   ((void *)0x200000000000)
#define PAGE_BYTES 4096

/* Each child has these before the first snapshot: a mapped page of a file, a library, and an open
 * file. */
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

/* Writes the same byte: the contents stay, but the page becomes a private copy. */
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

/* Advises the whole mapping, so that the kernel does not split it. */
static bool advise(void)
{
	return madvise(page, PAGE_BYTES, MADV_DONTDUMP) == 0;
}

static bool lock(void)
{
	return syscall(SYS_mlock, page, PAGE_BYTES) == 0; /* sanitizers make mlock() do nothing */
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

static bool bind_name(const char *prefix, pid_t pid)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "%s-%d-1", prefix, pid);
	return bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
}

static bool lock_session(void)
{
	return bind_name("heaptap", getpid());
}

static bool name_agent(void)
{
	return bind_name("heaptap-agent", getpid());
}

/* Binds socket names of another process, which the snapshot must ignore. */
static bool lock_session_of_other(void)
{
	return bind_name("heaptap", getppid()) && bind_name("heaptap-agent", getppid());
}

static bool change_descriptor(void)
{
	return fcntl(snapchange_gate, F_SETFL, O_NONBLOCK) == 0;
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
	return fcntl(snapchange_gate, F_DUPFD_CLOEXEC, 900) >= 900;
}

static bool stop(void)
{
	return write(snapchange_gate, "x", 1) == 1 && raise(SIGSTOP) == 0;
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

static bool prepare(void)
{
	change_mask(SIG_BLOCK, SIGUSR2);
	library = dlopen(run_built("tests/targets/libplug.so"), RTLD_NOW);
	file_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	return library && map_page(0, 0) && file_fd >= 0;
}

static const struct snapchange changes[] = {
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
	{change_robust_list, "robust list", NULL, false},
	{leave_large_pages, "thread", "THP_enabled:", false},
	{grow_table, "thread", "FDSize:", false},
	{enter_filter, "thread", "Seccomp:", false},
	{enter_filter, "thread", "Seccomp_filters:", false},
	{lock_session, "socket @heaptap-", NULL, false},
	{name_agent, "socket @heaptap-agent-", NULL, false},
};

/* Needs two cores. */
static const struct snapchange core_change = {leave_core, "thread", "Cpus_allowed:", false};

static void check(const struct snapchange *change, size_t number, unsigned flags)
{
	snapchange_check(change, prepare, number, flags);
}

HT_TEST(each_change_is_seen)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(changes); i++)
		check(&changes[i], i, 0);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		check(&core_change, HT_ARRAY_SIZE(changes), 0);
}

/* The child maps memory next to its other memory, where the kernel puts it. */
HT_TEST(sees_mappings_of_a_still_program)
{
	static const struct snapchange still = {nothing, NULL, NULL, false},
				       seen = {map_beside, "mapping", NULL, false},
				       unseen = {map_beside, NULL, NULL, false};
	check(&still, 0, PROCSNAP_STILL);
	check(&seen, 1, PROCSNAP_STILL);
	check(&unseen, 2, 0);
}

/* Flags that allow new libraries or descriptors must not hide those of heaptap. */
HT_TEST(always_sees_heaptaps_own)
{
	static const struct snapchange mapped = {map_our_file, "mapping", NULL, false},
				       held = {open_our_file, "descriptor", NULL, false},
				       loaded = {make_code, NULL, NULL, false},
				       other = {open_descriptor, NULL, NULL, false},
				       moved = {read_file, NULL, NULL, false},
				       other_name = {lock_session_of_other, NULL, NULL, false};
	check(&mapped, 0, PROCSNAP_MODULES_GROW);
	check(&held, 1, PROCSNAP_FDS_CHANGE);
	check(&loaded, 2, PROCSNAP_MODULES_GROW);
	check(&other, 3, PROCSNAP_FDS_CHANGE);
	check(&moved, 5, PROCSNAP_FILES_MOVE);
	check(&other_name, 4, PROCSNAP_FDS_CHANGE);
}

HT_SUITE("integration/snapshot")
