/* SPDX-License-Identifier: Apache-2.0
 *
 * Moments as a person writes them, and what is not one.
 */
#include "analyzer/query/moment.h"

#include "tests/support/ht_check.h"

#define S 1000000000ull

/* A window of one minute from 23:59:50.5 UTC on. */
static struct model_mark mark[] = {{7 * S, "load done"}, {9 * S, "+5s"}};
static const struct model model = {
	.capture.start_unix_ns = 1699919990 * S + S / 2,
	.duration_ns = 60 * S,
	.mark = mark,
	.mark_count = HT_ARRAY_SIZE(mark),
};

HT_TEST(moments_are_nanoseconds_since_the_start)
{
	static const struct {
		const char *text;
		uint64_t want;
	} cases[] = {
		{"+10s", 10 * S},
		{"+1.5m", 90 * S},
		{"+500ms", S / 2},
		{"+0s", 0},
		{"0", 0},
		{"10s", 10 * S},
		{"-5s", 55 * S},
		{"-2m", 0}, /* before the start */
		{"load done", 7 * S},
		{"+5s", 9 * S}, /* the mark of this name, not 5 s */
		{"23:59:51", S / 2},
		{"23:59", 86349 * S + S / 2}, /* the next day */
		{"23:59:50", 0},
		{"00:00:10", 19 * S + S / 2},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		uint64_t got = 1;
		ck_no_err(moment_parse("--from", cases[i].text, &model, true, &got));
		ck_assert_msg(got == cases[i].want, "%s is %lu, not %lu", cases[i].text, got,
			cases[i].want);
	}
}

HT_TEST(refuses_malformed_moments)
{
	static const char *const text[] = {"", "+", "-", "+10parsecs", "10s later", "24:00:00",
		"12:60", "12:30:", "12:30:10x", "load", "+-5s", "nan", "+inf",
		"12"
		":5:1:2"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(text); i++) {
		uint64_t got;
		ck_err_says(moment_parse("--to", text[i], &model, true, &got), HT_ERR_USAGE,
			"--to takes a time since the start (+10s)");
	}
}

HT_SUITE("analyzer/moment")
