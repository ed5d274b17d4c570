/* SPDX-License-Identifier: Apache-2.0
 *
 * Which module an address belonged to, over loads and unloads.
 */
#include "analyzer/model/modules.h"

#include "tests/support/ht_check.h"

static struct modules modules;
static struct strings strings;

static void add(uint64_t id, uint64_t epoch, uint64_t lo, uint64_t hi)
{
	const struct rec_module rec = {
		.id = id,
		.epoch = epoch,
		.lo = lo,
		.hi = hi,
		.bias = lo,
		.path = {"/lib/x.so", 9},
		.build_id = {"\x00\xff", 2},
	};
	ck_no_err(modules_add(&modules, &strings, &rec));
}

/* Returns the id of the module, 0 for none. */
static uint64_t find(uint64_t pc, uint64_t epoch)
{
	uint32_t index;
	ck_no_err(modules_find(&modules, pc, epoch, &index));
	return index == MODULES_NONE ? 0 : modules.module[index].id;
}

static void end(void)
{
	modules_deinit(&modules);
	strings_deinit(&strings);
}

HT_TEST(addresses_are_found_in_their_module)
{
	ck_assert_uint_eq(find(0x1000, 0), 0);
	add(1, 0, 0x5000, 0x6000);
	add(2, 0, 0x1000, 0x2000);
	ck_assert_uint_eq(find(0xfff, 0), 0);
	ck_assert_uint_eq(find(0x1000, 0), 2);
	ck_assert_uint_eq(find(0x1fff, 0), 2);
	ck_assert_uint_eq(find(0x2000, 0), 0);
	ck_assert_uint_eq(find(0x5500, 9), 1);
	ck_assert_str_eq(modules.module[0].build_id, "00ff");
	add(3, 0, 0x2000, 0x3000); /* after the first question */
	ck_assert_uint_eq(find(0x2000, 0), 3);
	end();
}

HT_TEST(an_address_may_have_several_modules_over_time)
{
	add(1, 0, 0x1000, 0x3000);
	modules_gone(&modules, &(struct rec_module_gone){.id = 1, .epoch = 5});
	add(2, 7, 0x1000, 0x2000);
	modules_gone(&modules, &(struct rec_module_gone){.id = 2, .epoch = 8});
	add(3, 8, 0x800, 0x1800);
	ck_assert_uint_eq(find(0x1500, 4), 1);
	ck_assert_uint_eq(find(0x1500, 5), 0);
	ck_assert_uint_eq(find(0x1500, 7), 2);
	ck_assert_uint_eq(find(0x1500, 8), 3);
	ck_assert_uint_eq(find(0x2500, 0), 1);
	end();
}

HT_TEST(a_repeated_id_is_ignored)
{
	add(1, 0, 0x1000, 0x2000);
	add(1, 0, 0x3000, 0x4000);
	modules_gone(&modules, &(struct rec_module_gone){.id = 99, .epoch = 1});
	ck_assert_uint_eq(modules.ignored, 1);
	ck_assert_uint_eq(find(0x3000, 0), 0);
	end();
}

HT_SUITE("analyzer/modules")
