/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/patch.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "attach/memory/memory.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define REAL  0x7f0000001000ull
#define THUNK 0x7f0000002028ull
#define OTHER at((const void *)check_report) /* a function of the program's own */

static struct proc self;
static struct journal journal;
static uint64_t *words; /* two pages of a file */
static struct module module;

static raddr_t at(const void *pointer)
{
	return (raddr_t)(uintptr_t)pointer;
}

static int make_file(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 2 * HT_PAGE_BYTES), 0);
	return fd;
}

static void map_file(int fd, void *where)
{
	words = mmap(where, 2 * HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | (where ? MAP_FIXED : 0), fd, 0);
	ck_assert_ptr_ne(words, MAP_FAILED);
}

/* Makes the module, whose only segment is the file's two pages at `words`. */
static void describe(int fd)
{
	struct stat file;
	ck_assert_int_eq(fstat(fd, &file), 0);
	module = (struct module){.bias = at(words),
		.lo = at(words),
		.hi = at(words) + 2 * HT_PAGE_BYTES,
		.dev = file.st_dev,
		.inode = file.st_ino,
		.segment_count = 1,
		.segment = {{.memsz = 2 * HT_PAGE_BYTES, .filesz = 2 * HT_PAGE_BYTES}}};
}

static void setup(void)
{
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	ck_no_err(journal_create(&journal));
	journal_begin(&journal, 0, 0, 0);
	int fd = make_file();
	map_file(fd, NULL);
	describe(fd);
	for (size_t i = 0; i < 2 * HT_PAGE_BYTES / 8; i++)
		words[i] = REAL;
}

static struct slot slot_of(const uint64_t *word)
{
	return (struct slot){.addr = at(word),
		.value = REAL,
		.verdict = SLOT_TAP,
		.hook = ABI_HOOK_FREE,
		.real = REAL};
}

static struct ht_err *try_tap(const uint64_t *word, bool *ret_done)
{
	struct slot slot = slot_of(word);
	struct patch patch;
	ck_no_err(patch_begin(&self, &patch));
	struct ht_err *err = patch_tap(&patch, &module, &slot, THUNK, &journal, ret_done);
	patch_end(&patch);
	return err;
}

static bool tap(const uint64_t *word)
{
	bool done = true;
	ck_no_err(try_tap(word, &done));
	return done;
}

static struct patch_report untap(void)
{
	struct patch_report report;
	ck_no_err(patch_untap_all(&self, &journal, &report));
	return report;
}

static raddr_t written[8];
static size_t written_count;

static ssize_t note_written(raddr_t addr, long put)
{
	if (put > 0 && written_count < HT_ARRAY_SIZE(written))
		written[written_count++] = addr;
	return put;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	return note_written((raddr_t)offset, syscall(SYS_pwrite64, fd, bytes, length, offset));
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *ours, unsigned long our_count,
	const struct iovec *theirs, unsigned long their_count, unsigned long flags)
{
	return note_written(at(theirs->iov_base),
		syscall(SYS_process_vm_writev, pid, ours, our_count, theirs, their_count, flags));
}

static void check_report(struct patch_report report, size_t tapped, size_t restored, size_t changed)
{
	ck_assert_uint_eq(report.tapped, tapped);
	ck_assert_uint_eq(report.restored, restored);
	ck_assert_uint_eq(report.changed, changed);
	ck_assert_uint_eq(report.unloaded, 0);
}

static void check_unloaded(struct patch_report report, size_t unloaded)
{
	ck_assert_uint_eq(report.tapped, 0);
	ck_assert_uint_eq(report.unloaded, unloaded);
}

HT_TEST(taps_and_restores)
{
	setup();
	ck_assert(tap(&words[3]));
	ck_assert_uint_eq(words[3], THUNK);
	ck_assert_uint_eq(words[2], REAL);
	ck_assert_uint_eq(words[4], REAL);
	ck_assert_uint_eq(journal.header->slot_count, 1);
	ck_assert_uint_eq(journal.slot[0].addr, at(&words[3]));
	ck_assert_uint_eq(journal.slot[0].original, REAL);
	ck_assert_uint_eq(journal.slot[0].thunk, THUNK);
	ck_assert_uint_eq(journal.slot[0].hook, ABI_HOOK_FREE);
	ck_assert_uint_ne(journal.slot[0].inode, 0);
	check_report(untap(), 1, 1, 0);
	ck_assert_uint_eq(words[3], REAL);
}

/* RELRO pages, to which the program itself cannot write. */
HT_TEST(read_only_pages)
{
	setup();
	ck_assert_int_eq(mprotect(words, HT_PAGE_BYTES, PROT_READ), 0);
	ck_assert(tap(&words[3]));
	ck_assert_uint_eq(words[3], THUNK);
	check_report(untap(), 1, 1, 0);
	ck_assert_uint_eq(words[3], REAL);
}

HT_TEST(a_changed_word_is_not_tapped)
{
	setup();
	words[3] = OTHER;
	ck_assert(!tap(&words[3]));
	ck_assert_uint_eq(words[3], OTHER);
	ck_assert_uint_eq(journal.header->slot_count, 0);
}

HT_TEST(a_page_that_is_gone_is_not_tapped)
{
	setup();
	munmap(words, HT_PAGE_BYTES);
	ck_assert(!tap(&words[3]));
	ck_assert_uint_eq(journal.header->slot_count, 0);
}

HT_TEST(a_full_journal_taps_nothing)
{
	setup();
	bool done = true;
	journal.header->slot_count = JOURNAL_SLOTS_MAX;
	ck_err(try_tap(&words[3], &done), HT_ERR_REFUSED);
	ck_assert(!done);
	ck_assert_uint_eq(words[3], REAL);
}

HT_TEST(a_word_that_others_changed_is_left_alone)
{
	setup();
	ck_assert(tap(&words[3]));
	ck_assert(tap(&words[5]));
	words[3] = OTHER;
	check_report(untap(), 2, 1, 1);
	ck_assert_uint_eq(words[3], OTHER);
	ck_assert_uint_eq(words[5], REAL);
	ck_assert_uint_eq(journal.slot[0].state, JOURNAL_SLOT_CHANGED);
	ck_assert_uint_eq(journal.slot[1].state, JOURNAL_SLOT_RESTORED);
}

/* The daemon died between the journal and the write, or the program restored it. */
HT_TEST(a_word_that_holds_the_original_is_restored)
{
	setup();
	ck_assert(tap(&words[3]));
	words[3] = REAL;
	check_report(untap(), 1, 1, 0);
	ck_assert_uint_eq(words[3], REAL);
}

HT_TEST(an_unmapped_word_is_lost)
{
	setup();
	ck_assert(tap(&words[3]));
	munmap(words, HT_PAGE_BYTES);
	check_unloaded(untap(), 1);
}

/* Another mapping has taken the address, with the same word at the same address. */
static void check_not_touched(uint64_t value)
{
	uint64_t *now = words;
	now[3] = value;
	ck_assert(!tap(&now[3]));
	ck_assert_uint_eq(now[3], value);
	now[3] = THUNK;
	check_unloaded(untap(), 1);
	ck_assert_uint_eq(now[3], THUNK);
}

HT_TEST(another_mapping_is_not_written)
{
	setup();
	ck_assert(tap(&words[3]));
	map_file(make_file(), words);
	check_not_touched(REAL);

	/* Anonymous memory is another mapping as well. */
	setup();
	ck_assert(tap(&words[3]));
	words = mmap(words, HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	check_not_touched(REAL);

	/* So is another part of the same file. */
	setup();
	ck_assert(tap(&words[3]));
	int fd = make_file();
	map_file(fd, words);
	describe(fd);
	words[3] = REAL;
	ck_assert(tap(&words[3]));
	words = mmap(words, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
		HT_PAGE_BYTES);
	check_not_touched(REAL);
}

/* Entries of libraries that are gone make room, and are counted. */
HT_TEST(unloaded_slots_are_forgotten)
{
	setup();
	struct patch patch;
	ck_assert(tap(&words[3]));
	ck_assert(tap(&words[600]));
	munmap(words, HT_PAGE_BYTES);
	ck_no_err(patch_begin(&self, &patch));
	patch_forget_unloaded(&patch, &journal);
	patch_end(&patch);
	ck_assert_uint_eq(journal.slot[0].state, JOURNAL_SLOT_GONE);
	ck_assert_uint_eq(journal.slot[1].state, JOURNAL_SLOT_INTENDED);
	ck_assert(tap(&words[700]));
	ck_assert_uint_eq(journal.header->slot_count, 2);
	struct patch_report report = untap();
	ck_assert_uint_eq(report.tapped, 2);
	ck_assert_uint_eq(report.restored, 2);
	ck_assert_uint_eq(report.unloaded, 1);
}

/* The values that the dynamic linker stores in a lazy slot do not count as the program's change. */
HT_TEST(the_linkers_values_are_left_alone)
{
	static const uint8_t binder[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x68, 1, 0, 0, 0};
	uint8_t *code = mmap(
		NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code, binder, sizeof(binder));
	memcpy(code + 64, binder + 4, sizeof(binder) - 4);
	ck_assert_int_eq(mprotect(code, HT_PAGE_BYTES, PROT_READ | PROT_EXEC), 0);
	const uint64_t values[] = {REAL, at(code), at(code + 64), 0, 0x1036};
	for (size_t i = 0; i < HT_ARRAY_SIZE(values); i++) {
		setup();
		ck_assert(tap(&words[3]));
		words[3] = values[i];
		check_report(untap(), 1, 1, 0);
		ck_assert_uint_eq(words[3], values[i]);
	}
}

/* Slots of functions that free are tapped first and restored last: a free without its allocation
 * tells nothing, but an allocation without its free looks like a leak. */
HT_TEST(restores_in_reverse_order)
{
	static const size_t place[] = {3, 600, 4, 1};
	setup();
	for (size_t i = 0; i < HT_ARRAY_SIZE(place); i++)
		ck_assert(tap(&words[place[i]]));
	written_count = 0;
	check_report(untap(), HT_ARRAY_SIZE(place), HT_ARRAY_SIZE(place), 0);
	ck_assert_uint_eq(written_count, HT_ARRAY_SIZE(place));
	for (size_t i = 0; i < HT_ARRAY_SIZE(place); i++)
		ck_assert_uint_eq(written[i], at(&words[place[HT_ARRAY_SIZE(place) - 1 - i]]));
}

HT_TEST(untapping_twice_changes_nothing)
{
	setup();
	ck_assert(tap(&words[3]));
	ck_assert(tap(&words[4]));
	words[4] = OTHER;
	check_report(untap(), 2, 1, 1);
	words[3] = THUNK;
	words[4] = THUNK;
	check_report(untap(), 2, 1, 1);
	ck_assert_uint_eq(words[3], THUNK);
	ck_assert_uint_eq(words[4], THUNK);
}

HT_TEST(a_slot_can_be_tapped_again)
{
	setup();
	ck_assert(tap(&words[3]));
	words[3] = REAL; /* as if the dynamic linker had bound the slot again */
	ck_assert(tap(&words[3]));
	ck_assert_uint_eq(journal.header->slot_count, 1);
	check_report(untap(), 1, 1, 0);
	ck_assert_uint_eq(words[3], REAL);
}

HT_TEST(one_unreadable_slot_stops_no_other)
{
	setup();
	int fd = make_file();
	map_file(fd, words);
	describe(fd);
	uint64_t *first = &words[3], *behind = &words[600], *last = &words[4];
	*first = *behind = *last = REAL;
	ck_assert(tap(first));
	ck_assert(tap(behind));
	ck_assert(tap(last));
	/* Behind the end of a file nothing can be read. */
	ck_assert_int_eq(ftruncate(fd, HT_PAGE_BYTES), 0);
	struct patch_report report = untap();
	ck_assert_uint_eq(report.restored, 2);
	ck_assert_uint_eq(report.unloaded, 1);
	ck_assert_uint_eq(*first, REAL);
	ck_assert_uint_eq(*last, REAL);
}

static void replace(const struct slot *slot)
{
	struct patch patch;
	ck_no_err(patch_begin(&self, &patch));
	ck_no_err(patch_replace(&patch, &module, slot, OTHER));
	patch_end(&patch);
}

/* The slot may have been read seconds ago, and its word may have changed since. */
HT_TEST(only_what_was_read_is_replaced)
{
	setup();
	struct slot slot = slot_of(&words[3]);
	replace(&slot);
	ck_assert_uint_eq(words[3], OTHER);
	slot = slot_of(&words[4]);
	words[4] = THUNK;
	replace(&slot);
	ck_assert_uint_eq(words[4], THUNK);
	map_file(make_file(), words);
	words[5] = REAL;
	slot = slot_of(&words[5]);
	replace(&slot);
	ck_assert_uint_eq(words[5], REAL);
	munmap(words, 2 * HT_PAGE_BYTES);
	replace(&slot);
}

/* JUMP changes the first byte of CODE, a push, into that of a jump; the bytes behind it become the
 * distance to the pad. */
#define CODE	0x5653575455415641ull
#define JUMP	((CODE & ~0xffull) | 0xe9)
#define PAD(at) ((at) + 5 + (uint32_t)(CODE >> 8))

static void tap_code(uint64_t *word)
{
	struct patch patch;
	bool done;
	*word = CODE;
	ck_no_err(patch_begin(&self, &patch));
	const struct patch_code code = {.word = at(word),
		.pad = PAD(at(word)),
		.before = CODE,
		.after = JUMP,
		.count = 1,
		.place = {module.dev, module.inode, at(word) - module.lo}};
	ck_no_err(patch_code(&patch, &code, &journal, &done));
	patch_end(&patch);
	ck_assert(done && *word == JUMP);
}

static void untap_fails(void)
{
	struct patch_report report;
	ck_err(patch_untap_all(&self, &journal, &report), HT_ERR_INCOMPLETE);
}

/* A program that copies its code to large pages also copies the jumps that heaptap wrote. */
HT_TEST(code_is_restored_in_a_copy)
{
	setup();
	struct patch patch;
	uint64_t copy[HT_PAGE_BYTES / sizeof(uint64_t)];
	tap_code(&words[3]);
	memcpy(copy, words, sizeof(copy));
	words = mmap(words, HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memcpy(words, copy, sizeof(copy));
	/* Nor is the copy taken for an unloaded module. */
	ck_no_err(patch_begin(&self, &patch));
	patch_forget_unloaded(&patch, &journal);
	patch_end(&patch);
	check_report(untap(), 1, 1, 0);
	ck_assert_uint_eq(words[3], CODE);
}

HT_TEST(other_code_in_its_place_is_not_touched)
{
	setup();
	tap_code(&words[3]);
	words = mmap(words, HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	words[3] = JUMP ^ 0x100;
	check_unloaded(untap(), 1);
	ck_assert_uint_eq(words[3], JUMP ^ 0x100);
}

/* Another tool's jump begins with the same byte as heaptap's: restoring that byte would destroy the
 * other jump. */
HT_TEST(a_jump_of_another_tool_is_left_alone)
{
	setup();
	tap_code(&words[3]);
	words[3] = JUMP ^ 0x120300;
	untap_fails();
	ck_assert_uint_eq(words[3], JUMP ^ 0x120300);
	words[3] = JUMP;
	check_report(untap(), 1, 1, 0);
	ck_assert_uint_eq(words[3], CODE);
}

HT_TEST(a_breakpoint_beside_the_jump_stays)
{
	const uint64_t byte_4 = 0xffull << 32, stopped = 0xccull << 32;
	setup();
	tap_code(&words[3]);
	words[3] = (JUMP & ~byte_4) | stopped;
	check_report(untap(), 1, 1, 0);
	ck_assert_uint_eq(words[3], (CODE & ~byte_4) | stopped);
}

static int go[2]; /* a pipe */

static int run_on(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child_wait();
}

static void become_another(const void *unused)
{
	static uint8_t stack[65536] __attribute__((aligned(16)));
	char byte;
	(void)unused;
	child_ready(clone(run_on, stack + sizeof(stack), CLONE_VM, NULL));
	if (read(go[0], &byte, 1) == 1)
		execlp("sleep", "sleep", "1000", NULL);
}

/* The process has execed: the mapping now belongs to another program. */
HT_TEST(does_not_write_to_another_program)
{
	struct patch patch;
	struct proc proc;
	setup();
	ck_assert_int_eq(pipe(go), 0);
	struct child child = child_fork(become_another, NULL);
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	ck_no_err(patch_begin(&proc, &patch));
	ck_assert_int_eq(write(go[1], "", 1), 1);
	while (proc_changed(&proc) == PROC_SAME)
		sched_yield();
	/* This word is stored by PID, which leads to another program by now. */
	struct slot slot = slot_of(&words[1]);
	ck_assert(memory_stores_by_pid(slot.addr));
	ck_err_says(patch_replace(&patch, &module, &slot, THUNK), HT_ERR_TARGET_GONE,
		"another program");
	patch_end(&patch);
	ck_err_says(patch_begin(&proc, &patch), HT_ERR_TARGET_GONE, "another program");
	proc_close(&proc);
	kill((pid_t)child.value, SIGKILL);
	child_kill(&child);
}

HT_SUITE("attach/inject/patch")
