/* SPDX-License-Identifier: Apache-2.0
 *
 * The report calls leaking functions of a running program "growing", and no others
 * (tests/targets/leaky.c: the functions' names say which leak).
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/sample.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define RUN_MS 60000
#define LEAKS  10
#define CALM   12

static bool starts_with(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

/* Checks each function of leaky.c, and that growing ones come first. */
static void check_suspects(const json_t *suspects)
{
	unsigned leaks = 0, calm = 0;
	bool has_calm = false;
	size_t index;
	json_t *suspect;
	json_array_foreach(suspects, index, suspect)
	{
		const char *function = json_string_value(json_object_get(suspect, "function"));
		const char *text = report_text(suspect, "text");
		bool is_growing = !strcmp(report_text(suspect, "class"), "growing");
		if (!function)
			continue;
		ck_assert_msg(
			!starts_with(function, "leak_") || is_growing, "%s: %s", function, text);
		ck_assert_msg(
			!starts_with(function, "calm_") || !is_growing, "%s: %s", function, text);
		ck_assert_msg(!is_growing || !has_calm, "%s is growing, and not first", function);
		has_calm |= !is_growing;
		leaks += starts_with(function, "leak_");
		calm += starts_with(function, "calm_");
	}
	ck_assert_uint_eq(leaks, LEAKS);
	ck_assert_uint_eq(calm, CALM);
}

static void check_run(const char *seconds, uint64_t seed)
{
	struct victim victim;
	struct tap tap;
	char number[32], command[32];
	snprintf(number, sizeof(number), "%llu", (unsigned long long)seed);
	snprintf(command, sizeof(command), "run %s", seconds);
	victim_start(&victim, (const char *[]){run_built("tests/targets/leaky"), number, NULL});
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/leaky");
	char *answer = victim_ask(&victim, command, RUN_MS);
	ck_assert_str_eq(answer, "done");
	free(answer);
	tap_check_clean(tap_stop(&tap, 0));
	json_t *report = report_load(tap.trace);
	check_suspects(report_at(report, "suspects"));
	json_decref(report);
	victim_stop(&victim);
}

HT_TEST(leaks_are_growing_and_caches_are_not)
{
	check_run("20", sample_seed(1));
}

HT_TEST(in_a_window_of_twelve_seconds)
{
	check_run("12", sample_seed(1) + 1);
}

HT_SUITE_WAITING(
	"integration/suspects", leaks_are_growing_and_caches_are_not, in_a_window_of_twelve_seconds)
