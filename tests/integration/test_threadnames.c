/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread's allocations are reported under the name that the thread had when it allocated
 * (tests/targets/renamed.c), also if the thread got its name late, or lived for 1 ms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define WORK_MS 60000

struct stage {
	struct victim victim;
	struct tap tap;
};

static void begin(struct stage *stage)
{
	victim_start(&stage->victim, (const char *[]){run_built("tests/targets/renamed"), NULL});
	tap_start(&stage->tap, stage->victim.pid, NULL);
	tap_wait_on(&stage->tap, "/renamed");
}

static void tell(struct stage *stage, const char *command)
{
	free(victim_ask(&stage->victim, command, WORK_MS));
}

/* Does the trace, as far as it is written, have `count` thread names? */
static bool has_names(const struct stage *stage, unsigned count)
{
	HT_FREED char *out;
	run_program((const char *[]){run_built("heaptap"), "dump", stage->tap.trace, NULL}, WORK_MS,
		&out, NULL);
	for (const char *at = out; (at = strstr(at, "\nthread ")); at++)
		count -= count > 0;
	return count == 0;
}

static json_t *end(struct stage *stage)
{
	tap_check_clean(tap_stop(&stage->tap, 0));
	victim_stop(&stage->victim);
	return report_load(stage->tap.trace);
}

struct sums {
	uint64_t allocations, bytes, assumed;
	const json_t *names; /* the names of one thread */
};

/* The sums of all threads with this name. */
static struct sums of_name(const json_t *report, const char *name)
{
	struct sums sums = {0};
	json_t *thread;
	size_t index;
	json_array_foreach(report_at(report, "threads"), index, thread)
	{
		if (strcmp(report_text(thread, "name"), name) != 0)
			continue;
		sums.allocations += report_u64(thread, "allocations");
		sums.bytes += report_u64(thread, "allocated_bytes");
		sums.assumed += json_is_true(report_at(thread, "name_is_assumed"));
		sums.names = report_at(thread, "names");
	}
	return sums;
}

static void check_names(const json_t *names, const char *first, const char *second)
{
	ck_assert_uint_eq(json_array_size(names), 2);
	ck_assert_str_eq(json_string_value(json_array_get(names, 0)), first);
	ck_assert_str_eq(json_string_value(json_array_get(names, 1)), second);
}

HT_TEST(a_name_that_comes_late)
{
	struct stage stage;
	begin(&stage);
	tell(&stage, "keep 1 10");
	run_until(has_names(&stage, 1), WORK_MS);
	tell(&stage, "name db-writer");
	tell(&stage, "keep 1000 1000");
	json_auto_t *report = end(&stage);
	struct sums before = of_name(report, "the-main"), after = of_name(report, "db-writer");
	ck_assert_uint_eq(before.allocations, 1);
	ck_assert_uint_eq(before.bytes, 10);
	ck_assert_uint_eq(after.allocations, 1000);
	ck_assert_uint_eq(after.bytes, 1000000);
	ck_assert_uint_eq(after.assumed, 0);
	check_names(after.names, "the-main", "db-writer");
}

HT_TEST(names_in_turn)
{
	struct stage stage;
	begin(&stage);
	tell(&stage, "name red");
	tell(&stage, "keep 10 100");
	run_until(has_names(&stage, 1), WORK_MS);
	tell(&stage, "name blue");
	tell(&stage, "keep 10 200");
	run_until(has_names(&stage, 2), WORK_MS);
	tell(&stage, "name red");
	tell(&stage, "keep 10 100");
	json_auto_t *report = end(&stage);
	struct sums red = of_name(report, "red"), blue = of_name(report, "blue");
	ck_assert_uint_eq(red.allocations, 20);
	ck_assert_uint_eq(red.bytes, 20 * 100);
	ck_assert_uint_eq(blue.allocations, 10);
	ck_assert_uint_eq(blue.bytes, 10 * 200);
	check_names(blue.names, "red", "blue");
}

/* heaptap looks at names only now and then. A thread that ended between two looks gets the name of
 * the thread before it in its thread record, or the name that a new thread has. */
HT_TEST(threads_that_live_for_a_millisecond)
{
	struct stage stage;
	begin(&stage);
	tell(&stage, "short 200");
	json_auto_t *report = end(&stage);
	struct sums met = of_name(report, "short-worker"), born = of_name(report, "the-main");
	ck_assert_uint_eq(met.allocations + born.allocations, 200);
	ck_assert_uint_eq(born.assumed, born.allocations);
}

HT_SUITE("integration/threadnames")
