/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/journal.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

#define IMAGE_BYTES (ABI_JOURNAL_OFF + ABI_JOURNAL_BYTES)
#define BASE	    0x7000000000ull

static uint8_t *image;

/* The page behind the copy in the image cannot be accessed, so a write past the copy's end crashes.
 */
static struct journal begin(void)
{
	struct journal journal;
	image = mmap(NULL, IMAGE_BYTES + HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(image, MAP_FAILED);
	ck_assert_int_eq(mprotect(image + IMAGE_BYTES, HT_PAGE_BYTES, PROT_NONE), 0);
	ck_no_err(journal_create(&journal));
	journal_show(&journal, image);
	journal_begin(&journal, BASE, 1 << 20, BASE + 0x1000);
	return journal;
}

static void check_copy(const struct journal *journal)
{
	size_t bytes =
		sizeof(*journal->header) + journal->header->slot_count * sizeof(*journal->slot);
	ck_assert_mem_eq(image + ABI_JOURNAL_OFF, journal->header, bytes);
}

static struct journal_slot entry_at(raddr_t addr)
{
	return (struct journal_slot){.addr = addr,
		.original = addr + 1,
		.thunk = addr + 2,
		.dev = 3,
		.inode = 4,
		.hook = 5};
}

HT_TEST(begins_empty)
{
	struct journal journal = begin();
	ck_assert_uint_eq(journal.header->phase, JOURNAL_MAPPED);
	ck_assert_uint_eq(journal.header->slot_count, 0);
	ck_assert_uint_eq(journal.header->daemon_pid, (uint32_t)getpid());
	ck_assert_uint_eq(journal.header->image, BASE);
	ck_assert_uint_eq(journal.header->image_bytes, 1 << 20);
	ck_assert_uint_eq(journal.header->thunks, BASE + 0x1000);
	ck_assert_int_eq(journal.header->agent_fd, -1);
	ck_assert(!journal_has(&journal, 0));
	ck_no_err(journal_check(&journal));
}

HT_TEST(begins_over_anything)
{
	struct journal journal = begin();
	memset(image + ABI_JOURNAL_OFF, 0xa5, ABI_JOURNAL_BYTES);
	journal_begin(&journal, BASE, 1 << 20, BASE);
	ck_assert_uint_eq(journal.header->slot_count, 0);
	ck_assert_uint_eq(journal.header->slack_bytes, 0);
	ck_no_err(journal_check(&journal));
}

HT_TEST(entries_are_found)
{
	struct journal journal = begin();
	for (raddr_t addr = 8; addr <= 80; addr += 8) {
		struct journal_slot entry = entry_at(addr);
		ck_assert(!journal_has(&journal, addr));
		ck_no_err(journal_add(&journal, &entry));
		ck_assert(journal_has(&journal, addr));
	}
	ck_assert_uint_eq(journal.header->slot_count, 10);
	for (uint32_t i = 0; i < 10; i++) {
		struct journal_slot entry = entry_at(8 * (i + 1));
		ck_assert_mem_eq(&journal.slot[i], &entry, sizeof(entry));
	}
	ck_assert(!journal_has(&journal, 4));
	ck_assert(!journal_has(&journal, 88));
}

HT_TEST(an_address_is_entered_once)
{
	struct journal journal = begin();
	struct journal_slot entry = entry_at(8), other = entry_at(16);
	ck_no_err(journal_add(&journal, &entry));
	ck_no_err(journal_add(&journal, &other));
	journal.slot[0].state = JOURNAL_SLOT_RESTORED;
	entry.original = 99;
	entry.state = JOURNAL_SLOT_CHANGED;
	ck_no_err(journal_add(&journal, &entry));
	ck_assert_uint_eq(journal.header->slot_count, 2);
	ck_assert_uint_eq(journal.slot[0].original, 99);
	ck_assert_uint_eq(journal.slot[0].state, JOURNAL_SLOT_INTENDED);
	ck_assert_mem_eq(&journal.slot[1], &other, sizeof(other));
}

HT_TEST(a_full_journal_refuses)
{
	struct journal journal = begin();
	struct journal_slot last = entry_at(8 * JOURNAL_SLOTS_MAX), more = entry_at(1 << 30);
	journal.header->slot_count = JOURNAL_SLOTS_MAX - 1;
	ck_no_err(journal_add(&journal, &last));
	ck_assert_uint_eq(journal.header->slot_count, JOURNAL_SLOTS_MAX);
	ck_no_err(journal_check(&journal));
	ck_err_says(
		journal_add(&journal, &more), HT_ERR_REFUSED, "addresses of allocator functions");
	ck_assert_uint_eq(journal.header->slot_count, JOURNAL_SLOTS_MAX);
	ck_assert(!journal_has(&journal, more.addr));
	ck_no_err(journal_add(&journal, &last));
}

HT_TEST(phases)
{
	struct journal journal = begin();
	for (unsigned phase = JOURNAL_EMPTY; phase <= JOURNAL_TOMBSTONE; phase++) {
		journal_set_phase(&journal, (enum journal_phase)phase);
		ck_assert_uint_eq(journal.header->phase, phase);
	}
}

HT_TEST(damage_is_refused)
{
	struct journal journal = begin();
	struct journal_header good = *journal.header;

	journal.header->magic ^= 1;
	ck_err_says(journal_check(&journal), HT_ERR_REFUSED, "version");
	*journal.header = good;
	journal.header->version++;
	ck_err_says(journal_check(&journal), HT_ERR_REFUSED, "version");
	*journal.header = good;
	journal.header->slot_count = JOURNAL_SLOTS_MAX + 1;
	ck_err_says(journal_check(&journal), HT_ERR_REFUSED, "damaged");
	journal.header->slot_count = UINT32_MAX;
	ck_err_says(journal_check(&journal), HT_ERR_REFUSED, "damaged");
	*journal.header = good;
	journal.header->slack_bytes = JOURNAL_SLACK_BYTES + 1;
	ck_err_says(journal_check(&journal), HT_ERR_REFUSED, "damaged");
	journal.header->slack_bytes = JOURNAL_SLACK_BYTES;
	ck_no_err(journal_check(&journal));
}

HT_TEST(the_copy_is_equal)
{
	static const uint8_t original[] = "what was there";
	struct journal journal = begin();
	struct journal_slot first = entry_at(8), second = entry_at(16);
	check_copy(&journal);
	journal_set_slack(&journal, 0x1234, 0x1238, original, sizeof(original));
	journal_set_sockets(&journal, 7, 4711, 4712);
	check_copy(&journal);
	ck_no_err(journal_add(&journal, &first));
	ck_no_err(journal_add(&journal, &second));
	journal_set_phase(&journal, JOURNAL_TAPPED);
	check_copy(&journal);
	journal_set_state(&journal, 1, JOURNAL_SLOT_CHANGED);
	check_copy(&journal);
	journal_forget_undoing(&journal);
	check_copy(&journal);
}

/* The target can write to the copy in the image, so heaptap never reads it back. */
HT_TEST(the_copy_is_never_believed)
{
	struct journal journal = begin(), found;
	struct journal_slot entry = entry_at(8);
	ck_no_err(journal_add(&journal, &entry));
	memset(image + ABI_JOURNAL_OFF, 0xa5, ABI_JOURNAL_BYTES);
	ck_assert(journal_is_begun(&journal));
	ck_assert_uint_eq(journal.header->slot_count, 1);
	ck_assert(journal_has(&journal, 8));
	ck_no_err(journal_create(&found));
	journal_read(&found, image);
	ck_err(journal_check(&found), HT_ERR_REFUSED);
	journal_destroy(&found);
	journal_destroy(&journal);
	journal_destroy(&journal);
}

HT_TEST(entries_of_unloaded_slots_are_used_again)
{
	struct journal journal = begin();
	for (raddr_t addr = 8; addr <= 8 * JOURNAL_SLOTS_MAX; addr += 8) {
		struct journal_slot entry = entry_at(addr);
		ck_no_err(journal_add(&journal, &entry));
	}
	struct journal_slot entry = entry_at(1 << 30);
	ck_err(journal_add(&journal, &entry), HT_ERR_REFUSED);
	journal.slot[17].state = JOURNAL_SLOT_GONE;
	ck_no_err(journal_add(&journal, &entry));
	ck_assert_uint_eq(journal.slot[17].addr, 1 << 30);
	ck_assert_uint_eq(journal.header->slot_count, JOURNAL_SLOTS_MAX);
	ck_assert_uint_eq(journal.header->unloaded, 1);
}

HT_SUITE("attach/inject/journal")
