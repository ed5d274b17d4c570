/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/choose.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "tests/support/blocked.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define MIB    (1ull << 20)
#define MARGIN (256 * MIB)
#define END    0x7ffffffff000ull

/* --- threads ------------------------------------------------------------------------------------
 */

enum place {
	FORKED,
	SPINS,
	IN_FUTEX,
	IN_NANOSLEEP,
	IN_EPOLL,
	IN_EPOLL_TIMED,
	IN_VFORK,
	MAIN,
	PLACES
};

static struct shared {
	volatile pid_t tid[PLACES];
} * shared;

static void *be(void *arg)
{
	static int word;
	enum place place = *(const enum place *)arg;
	struct epoll_event event;
	struct timespec span = {.tv_sec = 1000};

	shared->tid[place] = (pid_t)syscall(SYS_gettid);
	switch (place) {
	case SPINS:
		for (;;)
			__asm__ volatile("pause");
	case IN_FUTEX:
		syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, NULL, NULL, 0);
		break;
	case IN_NANOSLEEP:
		nanosleep(&span, NULL);
		break;
	case IN_EPOLL:
		epoll_wait(epoll_create1(0), &event, 1, -1);
		break;
	case IN_EPOLL_TIMED:
		epoll_wait(epoll_create1(0), &event, 1, 1000000);
		break;
	case FORKED:
		if (fork() == 0)
			blocked_wait_for_parent();
		pause();
		break;
	case IN_VFORK:
		if (vfork() == 0)
			blocked_wait_for_parent();
		break;
	case MAIN:
	case PLACES:
		break;
	}
	return NULL;
}

/* Makes the best thread last: without sorting it would come last. */
static void be_everywhere(const void *arg)
{
	static const enum place place[] = {
		IN_VFORK, FORKED, IN_EPOLL_TIMED, SPINS, IN_EPOLL, IN_NANOSLEEP, IN_FUTEX};
	pthread_t thread;
	(void)arg;
	for (size_t i = 0; i < HT_ARRAY_SIZE(place); i++)
		pthread_create(&thread, NULL, be, (void *)(uintptr_t)&place[i]);
	child_ready(0);
	child_wait();
}

static void wait_for_call(const struct proc *proc, enum place place, long nr)
{
	struct proc_syscall call = {0};
	do {
		sched_yield();
		if (shared->tid[place])
			ck_no_err(proc_syscall_read(proc, shared->tid[place], &call));
	} while (!shared->tid[place] || (nr < 0 ? call.where != PROC_RUNNING
						: call.where != PROC_IN_SYSCALL || call.nr != nr));
}

HT_TEST(threads_that_are_disturbed_least_come_first)
{
	static const enum place order[] = {
		IN_FUTEX, IN_NANOSLEEP, IN_EPOLL, MAIN, FORKED, SPINS, IN_EPOLL_TIMED};
	struct choose_threads threads;
	struct proc proc;

	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct child child = child_fork(be_everywhere, NULL);
	ck_no_err(proc_open(child.pid, &proc));
	shared->tid[MAIN] = child.pid;
	wait_for_call(&proc, MAIN, SYS_pause);
	wait_for_call(&proc, FORKED, SYS_pause);
	wait_for_call(&proc, IN_VFORK, SYS_vfork);
	wait_for_call(&proc, IN_EPOLL_TIMED, SYS_epoll_wait);
	wait_for_call(&proc, IN_FUTEX, SYS_futex);
	wait_for_call(&proc, IN_NANOSLEEP, SYS_clock_nanosleep);
	wait_for_call(&proc, IN_EPOLL, SYS_epoll_wait);
	wait_for_call(&proc, SPINS, -1);
	ck_no_err(choose_threads(&proc, false, &threads));
	ck_assert_uint_eq(threads.count, HT_ARRAY_SIZE(order));
	for (size_t i = 0; i < HT_ARRAY_SIZE(order); i++)
		ck_assert_msg(threads.thread[i].tid == shared->tid[order[i]] &&
				      threads.thread[i].addressed ==
					      (order[i] == MAIN || order[i] == FORKED),
			"place %zu", i);
	choose_threads_deinit(&threads);
	ck_assert_ptr_null(threads.thread);
	choose_threads_deinit(&threads);
	proc_close(&proc);
	child_kill(&child);
}

HT_TEST(a_process_that_is_gone)
{
	struct child child = child_fork(child_idle, NULL);
	struct choose_threads threads;
	struct proc proc;
	ck_no_err(proc_open(child.pid, &proc));
	child_kill(&child);
	ck_err(choose_threads(&proc, false, &threads), HT_ERR_TARGET_GONE);
	proc_close(&proc);
}

/* --- slack --------------------------------------------------------------------------------------
 */

static struct proc_map text_map(raddr_t lo, raddr_t hi)
{
	return (struct proc_map){
		.lo = lo, .hi = hi, .inode = 7, .read = true, .exec = true, .name = "lib"};
}

static struct module text_module(raddr_t bias, uint64_t bytes)
{
	static char path[] = "/usr/lib/libmade-up.so";
	return (struct module){.path = path,
		.bias = bias,
		.initial = true,
		.segment = {{.vaddr = 0, .memsz = 0x123, .flags = PF_R},
			{.vaddr = 0x1000, .memsz = bytes, .filesz = bytes, .flags = PF_R | PF_X}},
		.segment_count = 2};
}

HT_TEST(the_longest_slack_is_taken)
{
	struct module module[] = {text_module(0x100000, 0x1f01), text_module(0x200000, 0x1401),
		text_module(0x300000, 0x1801)};
	struct proc_map map[] = {text_map(0x101000, 0x103000), text_map(0x201000, 0x203000),
		text_map(0x301000, 0x303000)};
	struct modules modules = {.module = module, .count = 3};
	struct proc_maps maps = {.map = map, .count = 3};
	struct choose_slack slack;

	ck_no_err(choose_slack(&modules, &maps, 100, NULL, NULL, &slack));
	ck_assert_uint_eq(slack.addr, 0x202440);
	ck_assert_uint_eq(slack.bytes, 100);
	ck_no_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack));
	ck_assert_uint_eq(slack.bytes, 0xbc0);
	ck_err_says(
		choose_slack(&modules, &maps, 0xbc1, NULL, NULL, &slack), HT_ERR_REFUSED, "3009");

	/* Mappings that choose_slack must refuse. */
	struct proc_map good = map[1];
	map[1].exec = false;
	ck_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack), HT_ERR_REFUSED);
	map[1] = good;
	map[1].read = false;
	ck_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack), HT_ERR_REFUSED);
	map[1] = good;
	map[1].write = true;
	ck_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack), HT_ERR_REFUSED);
	map[1] = good;
	map[1].shared = true;
	ck_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack), HT_ERR_REFUSED);
	map[1] = good;
	map[1].inode = 0;
	ck_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack), HT_ERR_REFUSED);
	map[1] = good;
	map[1].hi = 0x202000;
	ck_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack), HT_ERR_REFUSED);
	map[1] = good;
	module[1].vdso = true;
	ck_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack), HT_ERR_REFUSED);
	module[1].vdso = false;
	module[1].initial = false;
	ck_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack), HT_ERR_REFUSED);
	module[1].initial = true;
	module[1].segment[1].flags |= PF_W;
	ck_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack), HT_ERR_REFUSED);
	module[1].segment[1].flags = PF_R | PF_X;
	ck_no_err(choose_slack(&modules, &maps, 0xbc0, NULL, NULL, &slack));
}

HT_TEST(text_that_fills_its_page_has_no_slack)
{
	struct module module = text_module(0x100000, 0x2000);
	struct proc_map map[] = {text_map(0x101000, 0x103000), text_map(0x103000, 0x104000)};
	struct modules modules = {.module = &module, .count = 1};
	struct proc_maps maps = {.map = map, .count = 2};
	struct choose_slack slack;
	ck_err(choose_slack(&modules, &maps, 1, NULL, NULL, &slack), HT_ERR_REFUSED);
	module.segment[1].memsz = 0x1fc1;
	ck_err(choose_slack(&modules, &maps, 1, NULL, NULL, &slack), HT_ERR_REFUSED);
	module.segment[1].memsz = 0x1fc0;
	ck_no_err(choose_slack(&modules, &maps, 64, NULL, NULL, &slack));
	ck_assert_uint_eq(slack.addr, 0x102fc0);
}

/* The last page of a segment's code may hold another segment's code, which is not free space. */
HT_TEST(what_shares_the_last_page_is_left_alone)
{
	struct module module = text_module(0x100000, 0x1401);
	struct proc_map map[] = {text_map(0x101000, 0x103000)};
	struct modules modules = {.module = &module, .count = 1};
	struct proc_maps maps = {.map = map, .count = 1};
	struct choose_slack slack;

	module.segment[2] = (struct module_segment){
		.vaddr = 0x2800, .memsz = 0x780, .filesz = 0x780, .flags = PF_R | PF_X};
	module.segment_count = 3;
	ck_err(choose_slack(&modules, &maps, 0x3c1, NULL, NULL, &slack), HT_ERR_REFUSED);
	ck_no_err(choose_slack(&modules, &maps, 0x3c0, NULL, NULL, &slack));
	ck_assert_uint_eq(slack.addr, 0x102440);
	ck_assert(!choose_is_slack(&modules, &maps, 0x102800, 1));
	ck_assert(choose_is_slack(&modules, &maps, 0x102f80, 0x80));
	module.segment[2].vaddr = 0x2401;
	ck_assert(!choose_is_slack(&modules, &maps, 0x102440, 1));
}

/* Spent code, which never runs again, is taken only if no gap behind a segment's code is long
 * enough. */
HT_TEST(spent_code_is_the_second_choice)
{
	struct module module = text_module(0x100000, 0x1f01);
	struct proc_map map[] = {text_map(0x101000, 0x103000)};
	struct modules modules = {.module = &module, .count = 1};
	struct proc_maps maps = {.map = map, .count = 1};
	struct choose_slack slack;

	ck_err(choose_slack(&modules, &maps, 0x800, NULL, NULL, &slack), HT_ERR_REFUSED);
	module.spent = 0x101210;
	module.spent_bytes = 0x1000;
	module.natives.start.return_to = 0x101a00;
	ck_no_err(choose_slack(&modules, &maps, 0x80, NULL, NULL, &slack));
	ck_assert_uint_eq(slack.addr, 0x102f40);
	ck_assert_uint_eq(slack.left, 0);
	ck_assert_uint_eq(choose_slack_left(&modules, slack.addr), 0);
	ck_no_err(choose_slack(&modules, &maps, 0x800, NULL, NULL, &slack));
	ck_assert_uint_eq(slack.addr, 0x101240);
	ck_assert_uint_eq(slack.bytes, 0x800);
	ck_assert_uint_eq(slack.left, 0x101a00);
	ck_assert_uint_eq(choose_slack_left(&modules, slack.addr), 0x101a00);
	/* A place must lie within the spent code. */
	ck_assert(choose_is_slack(&modules, &maps, 0x101240, 0xfd0));
	ck_assert(!choose_is_slack(&modules, &maps, 0x101240, 0xfd1));
	ck_assert(!choose_is_slack(&modules, &maps, 0x101200, 1));
	ck_err(choose_slack(&modules, &maps, 0xfd1, NULL, NULL, &slack), HT_ERR_REFUSED);
	map[0].write = true;
	ck_err(choose_slack(&modules, &maps, 0x800, NULL, NULL, &slack), HT_ERR_REFUSED);
}

/* --- ranges -------------------------------------------------------------------------------------
 */

static void check_free(const struct proc_maps *maps, raddr_t lo, uint64_t bytes)
{
	ck_assert_uint_eq(lo % HT_PAGE_BYTES, 0);
	ck_assert_uint_ge(lo, 16 * HT_PAGE_BYTES + MARGIN);
	ck_assert_uint_le(lo + bytes, END - MARGIN);
	for (size_t i = 0; i < maps->count; i++)
		ck_assert(maps->map[i].hi + MARGIN <= lo || lo + bytes + MARGIN <= maps->map[i].lo);
}

HT_TEST(ranges_are_free)
{
	struct proc_map map[] = {{.lo = 0x400000, .hi = 0x500000},
		{.lo = 0x550000000000, .hi = 0x550000100000},
		{.lo = 0x7f0000000000, .hi = 0x7f0000100000},
		{.lo = 0x7ffffff00000, .hi = 0x7ffffffde000},
		{.lo = 0xffffffffff600000, .hi = 0xffffffffff601000}};
	struct proc_maps maps = {.map = map, .count = HT_ARRAY_SIZE(map)};
	raddr_t first, lo;
	bool differs = false;

	ck_no_err(choose_range(&maps, 700 * MIB, 0, &first));
	for (unsigned attempt = 0; attempt < 200; attempt++) {
		ck_no_err(choose_range(&maps, 700 * MIB, attempt, &lo));
		check_free(&maps, lo, 700 * MIB);
		differs |= lo != first;
	}
	ck_assert(differs);
}

HT_TEST(an_empty_space_has_room)
{
	struct proc_maps maps = {0};
	raddr_t lo;
	ck_no_err(choose_range(&maps, 700 * MIB, 0, &lo));
	check_free(&maps, lo, 700 * MIB);
}

/* One gap, just large enough or not. */
HT_TEST(a_full_space_is_refused)
{
	const uint64_t bytes = 700 * MIB;
	struct proc_map map[] = {{.lo = 0x10000, .hi = 0x10000000},
		{.lo = 0x10000000 + bytes + 2 * MARGIN, .hi = END}};
	struct proc_maps maps = {.map = map, .count = 2};
	raddr_t lo;
	for (unsigned attempt = 0; attempt < 20; attempt++) {
		ck_no_err(choose_range(&maps, bytes, attempt, &lo));
		ck_assert_uint_eq(lo, 0x10000000 + MARGIN);
	}
	map[1].lo -= HT_PAGE_BYTES;
	ck_err_says(choose_range(&maps, bytes, 0, &lo), HT_ERR_REFUSED, "MiB");
}

HT_TEST(the_range_of_a_real_process)
{
	struct proc proc;
	struct proc_maps maps;
	raddr_t lo;
	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(proc_maps_read(&proc, &maps));
	ck_no_err(choose_range(&maps, 700 * MIB, 0, &lo));
	check_free(&maps, lo, 700 * MIB);
	proc_maps_deinit(&maps);
	proc_close(&proc);
}

HT_SUITE("attach/stub/choose")
