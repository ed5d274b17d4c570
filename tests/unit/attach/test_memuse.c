/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's figures of a process's memory: all of them are read, and none of a process that has
 * no memory any more or runs another program.
 */
#include "attach/process/memuse.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"

#define MIB	 1048576u
#define GRACE_MS 10000

static const char status[] = "Name:\tVmRSS:\t1 kB\nState:\tS (sleeping)\nVmHWM:\t  90 kB\n"
			     "VmRSS:\t  80 kB\nRssAnon:\t  30 kB\nRssFile:\t  40 kB\n"
			     "RssShmem:\t  10 kB\nVmPTE:\t  4 kB\nVmSwap:\t  0 kB\n";

HT_TEST(every_line_of_status_is_a_figure)
{
	static const struct {
		enum memory_kind kind;
		uint64_t kib;
	} expected[] = {{MEMORY_RSS, 80}, {MEMORY_ANONYMOUS, 30}, {MEMORY_FILE, 40},
		{MEMORY_SHARED, 10}, {MEMORY_SWAP, 0}, {MEMORY_RSS_PEAK, 90},
		{MEMORY_PAGE_TABLES, 4}};
	struct memory memory = {0};
	ck_assert(memuse_parse_status(status, &memory));
	for (size_t i = 0; i < HT_ARRAY_SIZE(expected); i++) {
		ck_assert(memory.is_known[expected[i].kind]);
		ck_assert_uint_eq(memory.number[expected[i].kind], expected[i].kib * 1024);
	}
	ck_assert(!memory.is_known[MEMORY_MINOR_FAULTS] && !memory.is_known[MEMORY_CGROUP]);
}

HT_TEST(missing_figures_are_unknown_not_zero)
{
	struct memory memory = {0};
	/* No VmSwap, as on a kernel without swap, and a word in the place of a number. */
	ck_assert(memuse_parse_status("Name:\tx\nVmRSS:\t 8 kB\nRssFile:\tnone\n", &memory));
	ck_assert(memory.is_known[MEMORY_RSS] && !memory.is_known[MEMORY_FILE] &&
		  !memory.is_known[MEMORY_SWAP]);
	/* A process that is ending. */
	ck_assert(!memuse_parse_status("Name:\tx\nState:\tZ (zombie)\nThreads:\t1\n", &memory));
	ck_assert(!memuse_parse_status("", &memory));
}

HT_TEST(faults_are_fields_of_stat)
{
	static const char *const cut[] = {"", "1 (a", "1 (a)", "1 (a) S 1 2 3 4 5 6 7",
		"1 (a) S 1 2 3 4 5 6 7 8", "1 (a) S 1 2 3 4 5 6 x y z"};
	struct memory memory = {0};
	memuse_parse_stat("12 (a) b (c) S 1 2 3 4 5 6 700 8 90 10 11\n", &memory);
	ck_assert_uint_eq(memory.number[MEMORY_MINOR_FAULTS], 700);
	ck_assert_uint_eq(memory.number[MEMORY_MAJOR_FAULTS], 90);
	for (size_t i = 0; i < HT_ARRAY_SIZE(cut); i++) {
		struct memory none = {0};
		memuse_parse_stat(cut[i], &none);
		ck_assert(!none.is_known[MEMORY_MINOR_FAULTS]);
	}
}

/* Holds 8 MiB of private and 8 MiB of shared anonymous memory. */
static void hold(const void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < 2; i++) {
		int flags = (i ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_POPULATE;
		if (mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
			_exit(1);
	}
	child_ready(0);
	child_wait();
}

HT_TEST(kinds_of_pages_are_distinguished)
{
	struct child child = child_fork(hold, NULL);
	struct proc proc;
	struct memuse memuse;
	struct memory memory = {0};
	const uint64_t *number = memory.number;
	ck_no_err(proc_open(child.pid, &proc));
	memuse_open(&memuse, &proc);
	ck_assert(memuse_read(&memuse, 0, &memory));
	ck_assert_uint_ge(number[MEMORY_ANONYMOUS], 8 * MIB);
	ck_assert_uint_ge(number[MEMORY_SHARED], 8 * MIB);
	ck_assert_uint_eq(number[MEMORY_RSS],
		number[MEMORY_ANONYMOUS] + number[MEMORY_FILE] + number[MEMORY_SHARED]);
	ck_assert_uint_ge(number[MEMORY_RSS_PEAK], number[MEMORY_RSS]);
	ck_assert(memory.is_known[MEMORY_MINOR_FAULTS] && memory.is_known[MEMORY_MAJOR_FAULTS]);
	child_kill(&child);
	memuse_close(&memuse);
	proc_close(&proc);
}

static void wait_for_exec(const void *unused)
{
	sigset_t set;
	int signal;
	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	child_ready(0);
	sigwait(&set, &signal);
	execl("/bin/sleep", "sleep", "1000", (char *)NULL);
	_exit(1);
}

static bool is_zombie(const struct proc *proc)
{
	struct proc_status status_now;
	struct ht_err *err = proc_status(proc, 0, &status_now);
	bool ret = err || status_now.state == 'Z';
	ht_err_free(err);
	return ret;
}

HT_TEST(another_program_or_none_gives_nothing)
{
	struct child child = child_fork(wait_for_exec, NULL);
	struct proc proc;
	struct memuse memuse;
	struct memory memory = {0};
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	memuse_open(&memuse, &proc);
	ck_assert(memuse_read(&memuse, 0, &memory));
	ck_assert_int_eq(kill(child.pid, SIGUSR1), 0);
	run_until(proc_changed(&proc) == PROC_EXECED, GRACE_MS);
	ck_assert(!memuse_read(&memuse, 0, &memory));
	ck_assert_int_eq(kill(child.pid, SIGKILL), 0);
	run_until(is_zombie(&proc), GRACE_MS);
	ck_assert(!memuse_read(&memuse, 0, &memory));
	child_kill(&child);
	memuse_close(&memuse);
	proc_close(&proc);
}

HT_SUITE("attach/memuse")
