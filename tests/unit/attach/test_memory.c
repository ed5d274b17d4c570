/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/memory/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/memory/proc_maps.h"
#include "attach/memory/slow.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

#define PAGE   4096u
#define WRITES 20000u

static struct proc self;
static uint8_t *pages; /* two readable pages, the first of two read-only, then an unmapped one */

static raddr_t at(const void *pointer)
{
	return (raddr_t)(uintptr_t)pointer;
}

static void setup(void)
{
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(pages, MAP_FAILED);
	munmap(pages + 2 * PAGE, PAGE);
	for (size_t i = 0; i < 2 * PAGE; i++)
		pages[i] = (uint8_t)(i % 251 + 1);
	mprotect(pages, PAGE, PROT_READ);
}

HT_TEST(read_across_pages)
{
	setup();
	uint8_t got[2 * PAGE];
	ck_no_err(memory_read(&self, at(pages) + 1, got, sizeof(got) - 1));
	ck_assert_mem_eq(got, pages + 1, sizeof(got) - 1);
	ck_no_err(memory_read(&self, at(pages), got, 0));
	ck_no_err(memory_read(&self, 0, got, 0));
}

HT_TEST(read_past_the_end)
{
	setup();
	uint8_t got[2 * PAGE];
	size_t length;
	struct ht_err *err = memory_read(&self, at(pages) + PAGE + 1, got, PAGE);
	ck_assert_ptr_nonnull(err);
	ck_assert_int_eq(err->code, HT_ERR_SYS);
	ck_assert_ptr_nonnull(strstr(err->message, "0x"));
	ht_err_free(err);
	ck_no_err(memory_read_some(&self, at(pages) + PAGE + 1, got, PAGE, &length));
	ck_assert_uint_eq(length, PAGE - 1);
	ck_assert_mem_eq(got, pages + PAGE + 1, length);
	ck_no_err(memory_read_some(&self, at(pages) + 2 * PAGE, got, PAGE, &length));
	ck_assert_uint_eq(length, 0);
}

HT_TEST(impossible_addresses)
{
	setup();
	static const raddr_t addrs[] = {
		0, 8, INT64_MAX - 3, (uint64_t)INT64_MAX + 1, 0xffffffffff600000u, UINT64_MAX - 7};
	for (size_t i = 0; i < HT_ARRAY_SIZE(addrs); i++) {
		uint64_t word;
		size_t length;
		ck_err(memory_read_u64(&self, addrs[i], &word), HT_ERR_SYS);
		ck_no_err(memory_read_some(&self, addrs[i], &word, sizeof(word), &length));
		ck_assert_uint_eq(length, 0);
		ck_err(memory_write(&self, addrs[i], &addrs[i], 8), HT_ERR_SYS);
	}
	ck_err(memory_write_u64(&self, 0, 1), HT_ERR_SYS);
	ck_err(memory_write_u64(&self, UINT64_MAX - 7, 1), HT_ERR_SYS);
}

/* Mappings of a device that is mounted nowhere: reading their pages from it could block. */
HT_TEST(own_copies_of_avoided_pages)
{
	uint8_t *file = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE,
		open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 0);
	ck_assert_ptr_ne(file, MAP_FAILED);
	struct proc_map map = {.lo = at(file),
		.hi = at(file) + 2 * PAGE,
		.dev_major = 4095,
		.inode = 1,
		.name = "/nowhere"};
	struct proc_maps maps = {.map = &map, .count = 1};
	uint64_t word;
	size_t length;
	setup();
	slow_avoid();
	ck_no_err(slow_remember(&self, &maps));
	ck_assert_int_eq(((volatile uint8_t *)file)[0], 0x7f);
	ck_no_err(memory_read_some(&self, at(file), &word, sizeof(word), &length));
	ck_assert_uint_eq(length, 0);
	ck_no_err(memory_write(&self, at(file), "mine", 4));
	ck_no_err(memory_read_some(&self, at(file), &word, sizeof(word), &length));
	ck_assert_uint_eq(length, sizeof(word));
	ck_assert_mem_eq(&word, "mine", 4);
	ck_no_err(memory_read_some(&self, at(file) + PAGE - 4, &word, sizeof(word), &length));
	ck_assert_uint_eq(length, 0);
}

HT_TEST(file_of_a_mapping)
{
	static const char text[] = "what the file has";
	HT_FREED char *path = tmpdir_path("file");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	struct proc_maps maps;
	char got[2 * sizeof(text)] = "";
	setup();
	ck_assert_ptr_ne(page, MAP_FAILED);
	ck_assert_int_eq(write(fd, text, sizeof(text)), sizeof(text));
	page[0] = 'W';
	ck_no_err(proc_maps_read(&self, &maps));
	struct proc_map *map = &maps.map[proc_maps_find(&maps, at(page)) - maps.map];
	ck_assert_uint_eq(memory_read_file(&self, map, 0, got, sizeof(got)), sizeof(text));
	ck_assert_str_eq(got, text);
	ck_assert_uint_eq(memory_read_file(&self, map, 5, got, 4), 4);
	ck_assert_mem_eq(got, "the", 3);
	ck_assert_uint_eq(memory_read_file(&self, map, sizeof(text), got, 1), 0);

	/* A file on a device that is mounted nowhere is not read. */
	unsigned dev_major = map->dev_major;
	map->dev_major = 4095;
	slow_avoid();
	ck_no_err(slow_remember(&self, &maps));
	map->dev_major = dev_major;
	ck_assert_uint_eq(memory_read_file(&self, map, 0, got, sizeof(got)), 0);
	proc_maps_deinit(&maps);
}

HT_TEST(write_past_page_protection)
{
	setup();
	ck_no_err(memory_write(&self, at(pages) + PAGE - 3, "abcdef", 6));
	ck_assert_mem_eq(pages + PAGE - 3, "abcdef", 6);
	ck_no_err(memory_write_u64(&self, at(pages) + 8, 0x0123456789abcdef));
	uint64_t word;
	ck_no_err(memory_read_u64(&self, at(pages) + 8, &word));
	ck_assert_uint_eq(word, 0x0123456789abcdef);
	ck_err(memory_write(&self, at(pages) + 2 * PAGE - 3, "abcdef", 6), HT_ERR_SYS);
}

HT_TEST(word_writes_are_aligned)
{
	setup();
	for (unsigned i = 1; i < 8; i++)
		ck_err(memory_write_u64(&self, at(pages) + PAGE + i, 0), HT_ERR_INTERNAL);
}

static atomic_bool stop;
static atomic_uint changes;

/* Reports torn words, and counts the changes that it sees: a thread without a core would see no
 * torn word. */
static void *watch(void *arg)
{
	volatile uint64_t *word = arg;
	uint64_t before = 0;
	uintptr_t torn = 0;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		uint64_t value = *word;
		torn += value != 0 && value != UINT64_MAX;
		if (value != before)
			atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
		before = value;
	}
	return (void *)torn;
}

/* The least number of changes that a reader must see; on one core it sees only those at a context
 * switch. */
static unsigned changes_min(void)
{
	cpu_set_t allowed;
	ck_assert_int_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	return CPU_COUNT(&allowed) > 1 ? WRITES / 20 : 4;
}

/* Checks that no reader sees a torn word. How the kernel copies words near the start of a page
 * differs by processor. */
static void check_whole(uint64_t *word)
{
	pthread_t thread;
	void *torn;
	atomic_store(&stop, false);
	atomic_store(&changes, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, watch, word), 0);
	for (unsigned i = 0; i < WRITES || atomic_load(&changes) < changes_min(); i += 2) {
		ck_no_err(memory_write_u64(&self, at(word), UINT64_MAX));
		ck_no_err(memory_write_u64(&self, at(word), 0));
	}
	atomic_store(&stop, true);
	pthread_join(thread, &torn);
	ck_assert_msg(!torn, "%lu torn looks at page offset %lu", (uintptr_t)torn, at(word) % PAGE);
}

static void check_all_whole(uint8_t *page, int protection)
{
	static const unsigned offset[] = {
		0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 128, 2048, PAGE - 24, PAGE - 16, PAGE - 8};
	uint8_t kept[PAGE];
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	for (size_t i = 0; i < HT_ARRAY_SIZE(offset); i++)
		memset(page + offset[i], 0, sizeof(uint64_t));
	memcpy(kept, page, sizeof(kept));
	mprotect(page, PAGE, protection);
	for (size_t i = 0; i < HT_ARRAY_SIZE(offset); i++)
		check_whole((uint64_t *)(void *)(page + offset[i]));
	ck_assert_mem_eq(page, kept, sizeof(kept));
}

HT_TEST(word_writes_are_not_torn)
{
	setup();
	check_all_whole(pages, PROT_READ);
	check_all_whole(pages + PAGE, PROT_READ | PROT_WRITE);
}

/* A container's seccomp filter may forbid process_vm_writev, so that only /proc/PID/mem is left. */
HT_TEST(words_are_written_without_the_call)
{
	setup();
	deny_calls(SYS_process_vm_writev, EPERM);
	uint64_t *word[] = {
		(uint64_t *)(void *)(pages + 8), (uint64_t *)(void *)(pages + PAGE + 8)};
	for (size_t i = 0; i < HT_ARRAY_SIZE(word); i++) {
		ck_no_err(memory_write_u64(&self, at(word[i]), 0x0123456789abcdef + i));
		ck_assert_uint_eq(*(volatile uint64_t *)word[i], 0x0123456789abcdef + i);
		ck_assert_uint_eq(((uint8_t *)word[i])[-1], (i * PAGE + 7) % 251 + 1);
		ck_assert_uint_eq(((uint8_t *)word[i])[8], (i * PAGE + 16) % 251 + 1);
	}
}

static int exec_gate[2];

static void exec_on_demand(const void *arg)
{
	char byte;
	child_ready((long)(uintptr_t)pages);
	if (read(exec_gate[0], &byte, 1) == 1)
		execlp(arg, arg, "1000", NULL);
	_exit(1);
}

HT_TEST(an_exec_ends_access)
{
	setup();
	ck_assert_int_eq(pipe2(exec_gate, O_CLOEXEC), 0);
	struct child child = child_fork(exec_on_demand, "sleep");
	struct proc proc;
	uint64_t word;
	size_t length;
	char byte;
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	ck_no_err(memory_read_u64(&proc, (raddr_t)child.value, &word));
	ck_assert_int_eq(write(exec_gate[1], "x", 1), 1);
	ck_assert_int_eq(read(child.ready_fd, &byte, 1), 0);
	ck_err(memory_read_u64(&proc, (raddr_t)child.value, &word), HT_ERR_TARGET_GONE);
	ck_err(memory_read_some(&proc, (raddr_t)child.value, &word, 8, &length),
		HT_ERR_TARGET_GONE);
	ck_err(memory_write_u64(&proc, (raddr_t)child.value, 1), HT_ERR_TARGET_GONE);
	ck_err(memory_write_u64(&proc, (raddr_t)child.value + 8, 1), HT_ERR_TARGET_GONE);
	ck_err(memory_write(&proc, (raddr_t)child.value, &word, 8), HT_ERR_TARGET_GONE);
	proc_close(&proc);
	child_kill(&child);
}

HT_SUITE("attach/memory/memory")
