/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads under their names: which name counts at which time.
 */
#include "analyzer/model/threads.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/ht_check.h"

static struct threads threads;
static struct strings strings;

static void end(void)
{
	threads_deinit(&threads);
	strings_deinit(&strings);
}

static void name(uint64_t tid, const char *text, uint64_t since_tsc)
{
	const struct rec_thread rec = {
		.tid = tid, .name = {text, strlen(text)}, .since_tsc = since_tsc};
	ck_no_err(threads_name(&threads, &strings, &rec));
}

static uint32_t at(uint32_t tid, uint64_t tsc)
{
	uint64_t until;
	uint32_t index;
	ck_no_err(threads_index(&threads, tid, tsc, &index, &until));
	ck_assert_uint_gt(until, tsc);
	return index;
}

static const char *name_at(uint32_t tid, uint64_t tsc)
{
	return threads.thread[at(tid, tsc)].name;
}

HT_TEST(a_name_counts_from_its_time_on)
{
	name(1, "first", 100);
	name(1, "second", 200);
	name(1, "first", 300);
	name(1, "third", 400);
	ck_assert_str_eq(name_at(1, 0), "first");
	ck_assert_str_eq(name_at(1, 199), "first");
	ck_assert_str_eq(name_at(1, 200), "second");
	ck_assert_str_eq(name_at(1, 399), "first");
	ck_assert_str_eq(name_at(1, 1000), "third");
	/* One thread has one entry for each name. */
	ck_assert_uint_eq(at(1, 0), at(1, 350));
	ck_assert_uint_eq(threads.count, 3);
	ck_assert_uint_eq(threads.tids, 1);
	ck_assert_uint_eq(threads.thread[at(1, 1000)].first, at(1, 0));
	end();
}

HT_TEST(traces_that_do_not_say_since_when)
{
	name(1, "first", 0);
	name(1, "second", 0);
	ck_assert_str_eq(name_at(1, 0), "second");
	ck_assert_uint_eq(threads.count, 1);
	end();
}

HT_TEST(events_before_the_first_name_are_of_it)
{
	uint32_t index = at(7, 50);
	ck_assert_ptr_null(threads.thread[index].name);
	name(7, "late", 60);
	ck_assert_uint_eq(at(7, 50), index);
	ck_assert_str_eq(name_at(7, 50), "late");
	end();
}

HT_TEST(a_name_is_assumed_where_no_look_met_the_thread)
{
	bool is_assumed;
	name(1, "worker", 0);
	uint32_t one = at(1, 0), two = at(2, 0), three = at(3, 0), other = at(4, 0);
	threads_succeed(&threads, two, one);
	threads_succeed(&threads, three, two);
	ck_assert_str_eq(threads_shown_name(&threads, three, "main", &is_assumed), "worker");
	ck_assert(is_assumed);
	ck_assert_str_eq(threads_shown_name(&threads, other, "main", &is_assumed), "main");
	ck_assert(is_assumed);
	ck_assert_str_eq(threads_shown_name(&threads, one, "main", &is_assumed), "worker");
	ck_assert(!is_assumed);
	/* Thread numbers that are used again can make a circle. */
	threads_succeed(&threads, other, at(5, 0));
	threads_succeed(&threads, at(5, 0), other);
	ck_assert_str_eq(threads_shown_name(&threads, other, "main", &is_assumed), "main");
	end();
}

HT_TEST(names_without_bound_are_bounded)
{
	char text[16];
	for (unsigned i = 0; i < 3 * THREADS_NAMES_MAX; i++) {
		snprintf(text, sizeof(text), "name %u", i);
		name(1, text, i);
	}
	ck_assert_uint_eq(threads.count, THREADS_NAMES_MAX);
	ck_assert_str_eq(name_at(1, 17), "name 17");
	ck_assert_str_eq(name_at(1, 3 * THREADS_NAMES_MAX), "name 255");
	end();
}

HT_SUITE("analyzer/threads")
