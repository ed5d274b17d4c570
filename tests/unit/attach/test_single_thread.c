/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that records alone gets the sole flag, but never while another thread may be in the
 * middle of an event.
 */
#include "attach/daemon/single_thread.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"

#define SLOTS	  4u
#define PERIOD_NS 10000000u
#define KEY(i)	  (0x7f0000001000u + 0x100u * (uint64_t)(i))

static struct single_thread sole;
static struct abi_control control;
static struct abi_slot *slots;
static uint64_t last[ABI_LAST_WORDS];
static uint64_t now_ns;

static void make(void)
{
	memset(&sole, 0, sizeof(sole));
	memset(&control, 0, sizeof(control));
	memset(last, 0, sizeof(last));
	free(slots);
	slots = calloc(SLOTS, sizeof(*slots));
	now_ns = 1;
}

static void record(unsigned i)
{
	control.claimed[0] |= 1ull << i;
	slots[i].head.key = KEY(i);
	slots[i].head.committed += 20;
}

static void look(void)
{
	single_thread_look(&sole, &control, slots, SLOTS, last, now_ns);
	now_ns += PERIOD_NS;
}

/* Slot 0 records between the looks until it has the sole flag. */
static void make_sole(void)
{
	make();
	for (int i = 0; i < 2; i++) {
		record(0);
		look();
	}
	ck_assert_uint_eq(control.sole, KEY(0));
}

HT_TEST(in_two_steps)
{
	make();
	look();
	ck_assert_uint_eq(control.sole, 0);
	record(0);
	look();
	ck_assert_uint_eq(control.sole, KEY(0) | ABI_SOLE_PROPOSED);
	look();
	ck_assert_uint_eq(control.sole, KEY(0) | ABI_SOLE_PROPOSED);
	record(0);
	look();
	record(0);
	look();
	ck_assert_uint_eq(control.sole, KEY(0));
}

HT_TEST(looks_too_near_are_none)
{
	make();
	record(0);
	look();
	record(0);
	single_thread_look(&sole, &control, slots, SLOTS, last, now_ns - PERIOD_NS + 1000000);
	ck_assert_uint_eq(control.sole, KEY(0) | ABI_SOLE_PROPOSED);
}

/* Slot 1 began before it could see the proposal, and ended after it: slot 1 cleared nothing. */
HT_TEST(another_has_recorded_meanwhile)
{
	make();
	record(0);
	look();
	record(0);
	record(1);
	look();
	ck_assert_uint_eq(control.sole, KEY(0) | ABI_SOLE_PROPOSED);
	record(0);
	look();
	ck_assert_uint_eq(control.sole, KEY(0) | ABI_SOLE_PROPOSED);
	record(0);
	look();
	ck_assert_uint_eq(control.sole, KEY(0));
}

HT_TEST(another_is_in_an_event)
{
	static const enum abi_slot_state states[] = {ABI_SLOT_RECORDING, ABI_SLOT_IN_REAL};
	for (size_t i = 0; i < HT_ARRAY_SIZE(states); i++) {
		make();
		record(1);
		look();
		control.sole = 0;
		slots[1].head.state = states[i];
		for (int k = 0; k < 4; k++) {
			record(0);
			look();
			ck_assert_uint_eq(control.sole, 0);
		}
	}
}

HT_TEST(the_dead_do_not_record)
{
	make();
	record(1);
	look();
	control.sole = 0;
	slots[1].head.state = ABI_SLOT_RECORDING;
	slots[1].head.key |= ABI_SLOT_DEAD;
	record(0);
	look();
	record(0);
	look();
	ck_assert_uint_eq(control.sole, KEY(0));
}

/* Another slot has cleared the proposal between the looks. */
HT_TEST(a_cleared_proposal_is_made_again)
{
	make();
	record(0);
	look();
	control.sole = 0;
	record(0);
	look();
	ck_assert_uint_eq(control.sole, 0);
	record(0);
	look();
	ck_assert_uint_eq(control.sole, KEY(0) | ABI_SOLE_PROPOSED);
}

HT_TEST(two_are_not_alone)
{
	make();
	for (int i = 0; i < 4; i++) {
		record(0);
		record(2);
		look();
		ck_assert_uint_eq(control.sole, 0);
	}
}

HT_TEST(stays_while_all_rest)
{
	make_sole();
	for (int i = 0; i < 4; i++)
		look();
	ck_assert_uint_eq(control.sole, KEY(0));
}

static void set_marks(void)
{
	for (size_t i = 0; i < ABI_LAST_WORDS; i++)
		last[i] = abi_last_mark(16 * i, 1);
}

static bool has_marks(void)
{
	for (size_t i = 0; i < ABI_LAST_WORDS; i++) {
		if (last[i])
			return true;
	}
	return false;
}

/* Two threads have left marks. A thread that then records alone leaves none, so the old marks must
 * be cleared before. */
HT_TEST(marks_are_cleared_before)
{
	make();
	record(0);
	record(1);
	look();
	record(0);
	set_marks();
	look();
	ck_assert_uint_eq(control.sole, KEY(0) | ABI_SOLE_PROPOSED);
	ck_assert(!has_marks());
	record(0);
	look();
	ck_assert_uint_eq(control.sole, KEY(0));
}

/* Marks made by one thread are true; the sole flag for it need not clear them. */
HT_TEST(marks_of_one_stay)
{
	make();
	set_marks();
	record(1);
	look();
	record(1);
	look();
	ck_assert_uint_eq(control.sole, KEY(1));
	ck_assert(has_marks());
}

/* Another slot has recorded after the marks were cleared. */
HT_TEST(marks_are_cleared_each_time)
{
	make();
	record(0);
	look();
	record(1);
	look();
	ck_assert_uint_ne(control.sole, KEY(1));
	ck_assert(!has_marks());
	set_marks();
	record(0);
	record(1);
	look();
	ck_assert(has_marks());
	control.sole = 0;
	record(1);
	look();
	ck_assert(!has_marks());
	record(1);
	look();
	ck_assert_uint_eq(control.sole, KEY(1));
}

HT_SUITE("attach/single_thread")
