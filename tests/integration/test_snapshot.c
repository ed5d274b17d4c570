/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle of the others: tests/support/procsnap sees each single thing that heaptap could leave
 * behind, and nothing where there is nothing.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"

#define FAR_AWAY   ((void *)0x100000000000)
#define PAGE_BYTES 4096

static int gate[2];

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

static void *page_of(const volatile void *at)
{
	return (void *)((uintptr_t)at & -(uintptr_t)PAGE_BYTES);
}

static bool advise(void)
{
	return madvise(page_of(constants), PAGE_BYTES, MADV_DONTDUMP) == 0;
}

static bool lock(void)
{
	return mlock(page_of(constants), PAGE_BYTES) == 0;
}

static bool open_descriptor(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) >= 0;
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

static const struct change {
	bool (*make)(void);
	const char *seen; /* what a line of the difference begins with; NULL: nothing differs */
} changes[] = {
	{nothing, NULL},
	{map_our_file, "mapping"},
	{map_far_away, "mapping"},
	{change_code, "text"},
	{change_protected_word, "text"},
	{change_constant, "text"},
	{copy_constant, "pages"},
	{advise, "pages"},
	{lock, "pages"},
	{open_descriptor, "descriptor"},
	{change_descriptor, "descriptor"},
	{open_descriptor_of_thread, "descriptor task/"},
	{start_thread, "thread"},
	{block_signal, "thread"},
	{ignore_signal, "thread"},
	{signal_thread, "thread"},
	{signal_process, "thread"},
	{change_turns, "thread"},
	{change_nice, "thread"},
	{change_slack, "process"},
	{change_privileges, "thread"},
	{change_limit, "process"},
	{change_directory, "process"},
};

static void make_change(const void *arg)
{
	const struct change *change = arg;
	char go;
	change_mask(SIG_BLOCK, SIGUSR2);
	child_ready(0);
	if (read(gate[0], &go, 1) != 1 || !change->make() || write(gate[0], "x", 1) != 1)
		_exit(1);
	child_wait();
}

static bool has_line(const char *text, const char *beginning)
{
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, beginning, strlen(beginning)))
			return true;
	return false;
}

START_TEST(each_change_is_seen)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(changes); i++) {
		char done;
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, gate), 0);
		struct child child = child_fork(make_change, &changes[i]);
		struct procsnap *before = procsnap_take(child.pid, 0);
		ck_assert_int_eq(write(gate[1], "x", 1), 1);
		ck_assert_msg(read(gate[1], &done, 1) == 1, "change %zu was not made", i);
		struct procsnap *after = procsnap_take(child.pid, 0);
		char *difference = procsnap_diff(before, after);
		ck_assert_msg(
			changes[i].seen ? has_line(difference, changes[i].seen) : !difference[0],
			"change %zu: \"%s\"", i, difference);
		free(difference);
		procsnap_destroy(before);
		procsnap_destroy(after);
		child_kill(&child);
		close(gate[0]);
		close(gate[1]);
	}
}
END_TEST

HT_SUITE("integration/snapshot", each_change_is_seen)
