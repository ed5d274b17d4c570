/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress line begins with what matters most, and is never longer than the terminal's line.
 */
#include "attach/run/progress.h"

#include <string.h>

#include "tests/support/ht_check.h"

#define S    1000000000ull
#define MIB  1048576ull
#define NONE UINT64_MAX

static const struct control_reply usual = {.elapsed_ns = 12 * S,
	.duration_ns = 30 * S,
	.rss_first_bytes = 500 * MIB,
	.rss_bytes = 542 * MIB,
	.events_per_s = 431234,
	.trace_bytes = 8 * MIB + MIB / 5,
	.trace_bytes_per_min = 41 * MIB};

static void check(const struct control_reply *status, uint64_t free_bytes, size_t columns,
	const char *expected)
{
	char text[PROGRESS_BYTES];
	progress_text(status, free_bytes, columns, text);
	ck_assert_str_eq(text, expected);
}

HT_TEST(a_usual_terminal_has_all)
{
	check(&usual, NONE, 79,
		"12 s of 30 s, RSS +42.0 MiB (+210 MiB/min), 431k events/s, 8.2 MiB (41 MiB/min)");
	struct control_reply status = usual;
	status.duration_ns = 0;
	status.elapsed_ns = 3 * 3600 * S + 65 * S;
	status.rss_bytes = 400 * MIB;
	check(&status, NONE, 79,
		"3:01:05, RSS -100.0 MiB (-565 KiB/min), 431k events/s, 8.2 MiB (41 MiB/min)");
	status.paused = 1;
	status.rss_bytes = 0;
	check(&status, NONE, 79, "paused, 3:01:05, 431k events/s, 8.2 MiB (41 MiB/min)");
}

HT_TEST(a_narrow_terminal_has_the_first_parts)
{
	for (size_t columns = 0; columns < 100; columns++) {
		char text[PROGRESS_BYTES];
		progress_text(&usual, NONE, columns, text);
		ck_assert_uint_le(strlen(text), columns);
	}
	check(&usual, NONE, 30, "12 s of 30 s, RSS +42.0 MiB");
}

HT_TEST(losses_and_a_disk_that_fills_come_first)
{
	struct control_reply status = usual;
	check(&status, 41 * 61 * MIB, 30, "12 s of 30 s, RSS +42.0 MiB");
	check(&status, 41 * 9 * MIB, 40, "12 s of 30 s, DISK FULL in 9 min");
	status.dropped = 12345;
	check(&status, 0, 50, "12 s of 30 s, DISK FULL in 0 min, 12k LOST");
}

HT_SUITE("attach/run/progress")
