/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/patch.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

#define REAL  0x7f0000001000ull
#define THUNK 0x7f0000002028ull
#define OTHER 0x7f0000003000ull

static struct proc self;
static struct proc_maps maps;
static struct journal journal;
static uint64_t *words; /* two pages of a file */

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

static void read_maps(void)
{
	proc_maps_deinit(&maps);
	ck_no_err(proc_maps_read(&self, &maps));
}

static void setup(void)
{
	static uint8_t image[ABI_JOURNAL_OFF + ABI_JOURNAL_BYTES] __attribute__((aligned(4096)));
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	journal = journal_of(image);
	journal_begin(&journal, 0, 0, 0);
	map_file(make_file(), NULL);
	for (size_t i = 0; i < 2 * HT_PAGE_BYTES / 8; i++)
		words[i] = REAL;
	read_maps();
}

static struct slot slot_of(const uint64_t *word)
{
	return (struct slot){.addr = at(word),
		.value = REAL,
		.verdict = SLOT_TAP,
		.hook = ABI_HOOK_FREE,
		.real = REAL};
}

static bool tap(const uint64_t *word)
{
	struct slot slot = slot_of(word);
	bool done = true;
	ck_no_err(patch_tap(&self, &maps, &slot, THUNK, &journal, &done));
	return done;
}

static struct patch_report untap(void)
{
	struct patch_report report;
	ck_no_err(patch_untap_all(&self, &journal, &report));
	return report;
}

static void check_report(struct patch_report report, size_t tapped, size_t restored, size_t lost)
{
	ck_assert_uint_eq(report.tapped, tapped);
	ck_assert_uint_eq(report.restored, restored);
	ck_assert_uint_eq(report.lost, lost);
}

START_TEST(taps_and_restores)
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
END_TEST

/* RELRO: what the program itself cannot write. */
START_TEST(read_only_pages)
{
	setup();
	ck_assert_int_eq(mprotect(words, HT_PAGE_BYTES, PROT_READ), 0);
	read_maps();
	ck_assert(tap(&words[3]));
	ck_assert_uint_eq(words[3], THUNK);
	check_report(untap(), 1, 1, 0);
	ck_assert_uint_eq(words[3], REAL);
}
END_TEST

START_TEST(a_changed_word_is_not_tapped)
{
	setup();
	words[3] = OTHER;
	ck_assert(!tap(&words[3]));
	ck_assert_uint_eq(words[3], OTHER);
	ck_assert_uint_eq(journal.header->slot_count, 0);
}
END_TEST

START_TEST(a_page_that_is_gone_is_not_tapped)
{
	setup();
	munmap(words, HT_PAGE_BYTES);
	ck_assert(!tap(&words[3]));
	read_maps();
	ck_assert(!tap(&words[3]));
	ck_assert_uint_eq(journal.header->slot_count, 0);
}
END_TEST

START_TEST(a_full_journal_taps_nothing)
{
	setup();
	struct slot slot = slot_of(&words[3]);
	bool done = true;
	journal.header->slot_count = JOURNAL_SLOTS_MAX;
	ck_err(patch_tap(&self, &maps, &slot, THUNK, &journal, &done), HT_ERR_REFUSED);
	ck_assert(!done);
	ck_assert_uint_eq(words[3], REAL);
}
END_TEST

START_TEST(a_word_that_others_changed_is_left_alone)
{
	setup();
	ck_assert(tap(&words[3]));
	ck_assert(tap(&words[5]));
	words[3] = OTHER;
	check_report(untap(), 2, 1, 1);
	ck_assert_uint_eq(words[3], OTHER);
	ck_assert_uint_eq(words[5], REAL);
	ck_assert_uint_eq(journal.slot[0].state, JOURNAL_SLOT_LOST);
	ck_assert_uint_eq(journal.slot[1].state, JOURNAL_SLOT_RESTORED);
}
END_TEST

/* The daemon died between the journal and the write, or the program restored it. */
START_TEST(a_word_that_holds_the_original_is_restored)
{
	setup();
	ck_assert(tap(&words[3]));
	words[3] = REAL;
	check_report(untap(), 1, 1, 0);
	ck_assert_uint_eq(words[3], REAL);
}
END_TEST

START_TEST(an_unmapped_word_is_lost)
{
	setup();
	ck_assert(tap(&words[3]));
	munmap(words, HT_PAGE_BYTES);
	check_report(untap(), 1, 0, 1);
}
END_TEST

/* Another library came to the same address, with the same word in the same place. */
START_TEST(another_mapping_is_not_written)
{
	setup();
	ck_assert(tap(&words[3]));
	map_file(make_file(), words);
	words[3] = THUNK;
	check_report(untap(), 1, 0, 1);
	ck_assert_uint_eq(words[3], THUNK);

	/* Anonymous memory is another mapping as well. */
	setup();
	ck_assert(tap(&words[3]));
	words = mmap(words, HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	words[3] = THUNK;
	check_report(untap(), 1, 0, 1);
	ck_assert_uint_eq(words[3], THUNK);
}
END_TEST

START_TEST(untapping_twice_changes_nothing)
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
END_TEST

START_TEST(a_slot_can_be_tapped_again)
{
	setup();
	ck_assert(tap(&words[3]));
	words[3] = REAL; /* bound anew by the program */
	ck_assert(tap(&words[3]));
	ck_assert_uint_eq(journal.header->slot_count, 1);
	check_report(untap(), 1, 1, 0);
	ck_assert_uint_eq(words[3], REAL);
}
END_TEST

START_TEST(one_failing_slot_stops_no_other)
{
	setup();
	int other = make_file();
	uint64_t *first = words, *failing, *last = words + 4;
	failing = mmap(NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
	ck_assert_ptr_ne(failing, MAP_FAILED);
	*failing = REAL;
	read_maps();
	ck_assert(tap(first));
	ck_assert(tap(failing));
	ck_assert(tap(last));
	/* Behind the end of a file nothing can be read. */
	ck_assert_int_eq(ftruncate(other, 0), 0);
	struct patch_report report = {0};
	ck_err(patch_untap_all(&self, &journal, &report), HT_ERR_SYS);
	check_report(report, 3, 2, 0);
	ck_assert_uint_eq(*first, REAL);
	ck_assert_uint_eq(*last, REAL);
}
END_TEST

HT_SUITE("attach/inject/patch", taps_and_restores, read_only_pages, a_changed_word_is_not_tapped,
	a_page_that_is_gone_is_not_tapped, a_full_journal_taps_nothing,
	a_word_that_others_changed_is_left_alone, a_word_that_holds_the_original_is_restored,
	an_unmapped_word_is_lost, another_mapping_is_not_written, untapping_twice_changes_nothing,
	a_slot_can_be_tapped_again, one_failing_slot_stops_no_other)
