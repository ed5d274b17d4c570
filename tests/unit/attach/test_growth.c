/* SPDX-License-Identifier: Apache-2.0
 *
 * growth_reached notices growth of memory by its limit, within a span or since the first figure.
 */
#include "attach/steer/growth.h"

#include "tests/support/ht_check.h"

#define S   1000000000ull
#define MIB 1048576ull

static struct growth growth_of(const char *text)
{
	struct growth growth = {0};
	const char *problem = growth_parse(text, &growth.limit);
	ck_assert_msg(!problem, "%s: %s", text, problem);
	return growth;
}

HT_TEST(sizes_and_rates_are_parsed)
{
	static const struct {
		const char *text;
		uint64_t bytes, span_ns;
	} good[] = {{"2G", 2048 * MIB, 0}, {"100M/min", 100 * MIB, 60 * S}, {"1M/s", MIB, S},
		{"1M/m", MIB, 60 * S}, {"1G/h", 1024 * MIB, 3600 * S},
		{"50M/10s", 50 * MIB, 10 * S}, {"1M/1h30m", MIB, 5400 * S}};
	static const char *const bad[] = {"", "/min", "100M/", "100M/fortnight", "x/min", "100M/0s",
		"11111111111111111111111111111111111111111/s"};
	struct growth_limit limit;
	for (size_t i = 0; i < HT_ARRAY_SIZE(good); i++) {
		ck_assert_ptr_null(growth_parse(good[i].text, &limit));
		ck_assert_uint_eq(limit.bytes, good[i].bytes);
		ck_assert_uint_eq(limit.span_ns, good[i].span_ns);
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(bad); i++)
		ck_assert_msg(growth_parse(bad[i], &limit) != NULL, "%s", bad[i]);
}

HT_TEST(without_a_span_the_first_figure_counts)
{
	struct growth growth = growth_of("10M");
	ck_assert(!growth_reached(&growth, 0, 100 * MIB));
	ck_assert(!growth_reached(&growth, 1, 110 * MIB - 1));
	ck_assert(!growth_reached(&growth, 9999 * S, 50 * MIB));
	ck_assert(growth_reached(&growth, 10000 * S, 110 * MIB));
	growth = (struct growth){0};
	ck_assert(!growth_reached(&growth, 1, UINT64_MAX)); /* no limit */
}

/* The limit is 300 MiB within a minute: a growth of 6 MiB a second reaches it after 50 s, 4 MiB a
 * second never, whatever the time between two figures. */
HT_TEST(growth_within_a_span)
{
	static const uint64_t steps_ns[] = {S / 50, S / 4, S, 7 * S};
	for (size_t i = 0; i < HT_ARRAY_SIZE(steps_ns); i++) {
		struct growth fast = growth_of("300M/min"), slow = fast;
		uint64_t reached_ns = 0;
		for (uint64_t ns = 0; ns < 600 * S; ns += steps_ns[i]) {
			if (growth_reached(&fast, ns, ns * 6 * MIB / S) && !reached_ns)
				reached_ns = ns;
			ck_assert(!growth_reached(&slow, ns, ns * 4 * MIB / S));
		}
		ck_assert_uint_ge(reached_ns, 50 * S);
		ck_assert_uint_lt(reached_ns, 50 * S + steps_ns[i]);
	}
}

/* Growth within seconds is noticed before the minute is over. It counts from the lowest figure,
 * also from one between two samples. */
HT_TEST(a_balloon_is_noticed_at_once)
{
	struct growth growth = growth_of("100M/min");
	ck_assert(!growth_reached(&growth, 0, 500 * MIB));
	ck_assert(!growth_reached(&growth, 1 * S, 599 * MIB));
	ck_assert(growth_reached(&growth, 2 * S, 600 * MIB));
	growth = growth_of("100M/min");
	ck_assert(!growth_reached(&growth, 0, 500 * MIB));
	ck_assert(!growth_reached(&growth, S / 10, 450 * MIB));
	ck_assert(growth_reached(&growth, 3 * S, 550 * MIB));
}

/* The target grows at once after an hour of almost no growth. */
HT_TEST(old_figures_are_forgotten)
{
	struct growth growth = growth_of("100M/10s");
	uint64_t ns = 0;
	for (; ns < 3600 * S; ns += S / 4)
		ck_assert(!growth_reached(&growth, ns, 500 * MIB + ns / S * 1024));
	bool is_reached = false;
	for (uint64_t end_ns = ns + 12 * S; ns < end_ns; ns += S / 4)
		is_reached |= growth_reached(&growth, ns, 650 * MIB);
	ck_assert(is_reached);
	/* The target has not grown for a whole span. */
	ck_assert(!growth_reached(&growth, ns, 650 * MIB));
}

HT_SUITE("attach/steer/growth")
