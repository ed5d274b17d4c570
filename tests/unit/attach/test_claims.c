/* SPDX-License-Identifier: Apache-2.0
 *
 * A journal in the target's memory may hold anything. heaptap accepts entries for known GOT slots,
 * and for code as its file has it. If another word holds a thunk, or if an entry would replace a
 * thunk by anything but an address of code, heaptap refuses the journal.
 */
#include "attach/inject/claims.h"

#include <string.h>
#include <unistd.h>

#include "attach/allocators/given_add.h"
#include "attach/elf/modules.h"
#include "attach/got/relocs.h"
#include "attach/got/slots.h"
#include "attach/stub/choose.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define IMAGE	    0x10000000000ull
#define IMAGE_BYTES (64ull << 20)
#define THUNK	    (IMAGE + ABI_THUNKS_OFF + ABI_THUNK_ENTRY)
#define WANTED	    200u /* bytes for a stub */

static struct proc self;
static struct proc_maps maps;
static struct modules modules;
static struct slots slots;
static struct journal journal;
static struct image image;
static uint64_t word; /* not a GOT slot */

static raddr_t at(const void *pointer)
{
	return (raddr_t)(uintptr_t)pointer;
}

static void setup(void)
{
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	ck_no_err(proc_maps_read(&self, &maps));
	ck_no_err(modules_read(&self, &maps, &modules));
	ck_no_err(slots_read(&self, &modules, 0, 0, false, &slots));
	image = (struct image){
		.base = IMAGE, .bytes = IMAGE_BYTES, .thunks = IMAGE + ABI_THUNKS_OFF};
	ck_no_err(journal_create(&journal));
	journal_begin(&journal, IMAGE, IMAGE_BYTES, IMAGE + ABI_THUNKS_OFF);
	word = 0;
}

/* Returns the entry that a capture would have made for a GOT slot of this program. */
static struct journal_slot honest(void)
{
	for (size_t i = 0; i < slots.count; i++)
		if (slots.slot[i].verdict == SLOT_TAP)
			return (struct journal_slot){.addr = slots.slot[i].addr,
				.original = slots.slot[i].value,
				.thunk = THUNK,
				.real = slots.slot[i].real,
				.hook = slots.slot[i].hook};
	ck_abort_msg("no slot in this program");
}

/* Returns the state that claims_check gives the entry. */
static enum journal_state accepted(struct journal_slot entry)
{
	ck_no_err(journal_add(&journal, &entry));
	ck_no_err(claims_check(&self, &image, &journal));
	return (enum journal_state)journal.slot[journal.header->slot_count - 1].state;
}

static void refused(const char *why)
{
	ck_err_says(claims_check(&self, &image, &journal), HT_ERR_REFUSED, why);
}

HT_TEST(the_truth)
{
	setup();
	ck_no_err(claims_check(&self, &image, &journal));
	ck_assert_int_eq(accepted(honest()), JOURNAL_SLOT_INTENDED);
}

/* The journal lists the names that --alloc-fn gave; without the list, a GOT slot of such a name is
 * not accepted. */
HT_TEST(a_slot_of_a_name_that_was_given)
{
	struct given_list list = {0}, none = {0};
	ck_no_err(given_add(&list, "getpid=malloc"));
	given_use(&list);
	setup();
	struct journal_slot entry = honest();
	for (size_t i = 0; i < slots.count; i++)
		if (slots.slot[i].name == TAP_NAME_GIVEN && slots.slot[i].verdict == SLOT_TAP) {
			entry.addr = slots.slot[i].addr;
			entry.original = slots.slot[i].value;
			entry.hook = slots.slot[i].hook;
		}
	ck_assert_uint_ne(entry.addr, honest().addr);
	given_use(&none);
	ck_assert_int_eq(accepted(entry), JOURNAL_SLOT_INTENDED);
	journal.header->given = none;
	ck_no_err(claims_check(&self, &image, &journal));
	ck_assert_int_eq(journal.slot[0].state, JOURNAL_SLOT_GONE);
	journal.header->given.count = GIVEN_MAX + 1;
	refused("damaged");
}

HT_TEST(another_image)
{
	setup();
	journal.header->image += HT_PAGE_BYTES;
	refused("another capture");
	journal.header->image -= HT_PAGE_BYTES;
	journal.header->image_bytes = UINT64_MAX;
	refused("another capture");
	journal.header->image_bytes = IMAGE_BYTES;
	journal.header->thunks = 0;
	refused("another capture");
}

HT_TEST(the_stubs_place)
{
	setup();
	struct choose_slack place;
	ck_no_err(choose_slack(&modules, &maps, WANTED, NULL, NULL, &place));
	const raddr_t wrong[] = {0, 1, at(&word), at((const void *)setup), place.addr - 1,
		place.addr + HT_PAGE_BYTES, UINT64_MAX, UINT64_MAX - WANTED + 1};
	journal.header->slack_bytes = WANTED;
	journal.header->slack = place.addr;
	ck_no_err(claims_check(&self, &image, &journal));
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		journal.header->slack = wrong[i];
		refused("the place of the attach code is invalid");
	}
	/* A call that never returns must end at slack_left; this code has none. */
	journal.header->slack = place.addr;
	journal.header->slack_left = place.addr;
	refused("the place of the attach code is invalid");
}

/* The word is no slot and holds no thunk: claims_check forgets the entry and writes nothing. */
HT_TEST(words_that_are_no_slots)
{
	setup();
	struct journal_slot entry = honest();
	const raddr_t addresses[] = {at(&word), 0, 1, UINT64_MAX, UINT64_MAX - 7, at(&self) + 3};
	for (size_t i = 0; i < HT_ARRAY_SIZE(addresses); i++) {
		entry.addr = addresses[i];
		ck_assert_int_eq(accepted(entry), JOURNAL_SLOT_GONE);
	}
}

HT_TEST(a_slot_that_is_not_tapped)
{
	setup();
	struct journal_slot entry = honest();
	entry.hook = ABI_ALLOCATOR_COUNT;
	ck_assert_int_eq(accepted(entry), JOURNAL_SLOT_GONE);
	entry.hook = UINT16_MAX;
	ck_assert_int_eq(accepted(entry), JOURNAL_SLOT_GONE);
	entry = honest();
	entry.thunk = at((const void *)setup);
	ck_assert_int_eq(accepted(entry), JOURNAL_SLOT_GONE);
	entry = honest();
	entry.original = at(&word);
	ck_assert_int_eq(accepted(entry), JOURNAL_SLOT_GONE);
}

/* The word is no slot but holds the entry's thunk: claims_check must refuse the whole journal. */
HT_TEST(a_thunk_elsewhere)
{
	setup();
	struct journal_slot entry = honest();
	word = THUNK;
	entry.addr = at(&word);
	ck_no_err(journal_add(&journal, &entry));
	refused("no address of an allocator function");
	word = 0;
	ck_no_err(claims_check(&self, &image, &journal));
	word = 4711;
	journal.slot[0].thunk = 4711;
	refused("no address of an allocator function");
}

/* A hook at the entry of a function of this program. */
static struct journal_slot honest_code(void)
{
	raddr_t addr = ht_align_up(at((const void *)setup), sizeof(uint64_t));
	struct journal_slot entry = {.addr = addr, .code_bytes = 1, .hook = ABI_HOOK_FREE};
	ck_no_err(memory_read_u64(&self, addr, &entry.original));
	entry.thunk = (entry.original & ~0xffull) | 0xe9;
	return entry;
}

/* claims_check accepts an entry for code only if `original` is what the file has there. */
HT_TEST(code_is_believed_by_its_file)
{
	setup();
	const struct journal_slot entry = honest_code();
	ck_assert_int_eq(accepted(entry), JOURNAL_SLOT_INTENDED);
	struct journal_slot wrong[] = {entry, entry, entry, entry, entry, entry};
	wrong[0].original ^= 1;
	wrong[1].original = wrong[1].thunk;
	wrong[2].addr += 1;
	wrong[3].addr = at(&word);
	wrong[4].code_at = sizeof(uint64_t);
	wrong[5].code_bytes = sizeof(uint64_t) + 1;
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		journal.header->slot_count = 0;
		ck_no_err(journal_add(&journal, &wrong[i]));
		refused("no address of an allocator function");
	}
}

HT_TEST(counts_beyond_all_bounds)
{
	setup();
	const uint32_t counts[] = {JOURNAL_SLOTS_MAX + 1, UINT32_MAX, 1u << 31};
	for (size_t i = 0; i < HT_ARRAY_SIZE(counts); i++) {
		journal.header->slot_count = counts[i];
		refused("damaged");
	}
	journal.header->slot_count = 0;
	journal.header->slack_bytes = JOURNAL_SLACK_BYTES + 1;
	refused("damaged");
	journal.header->slack_bytes = 0;
	journal.header->magic++;
	refused("another version of heaptap");
}

HT_SUITE("attach/inject/claims")
