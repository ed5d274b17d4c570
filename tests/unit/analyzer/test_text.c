/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for people, and names that cannot steer a terminal.
 */
#include "analyzer/ui/text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"

START_TEST(bytes_are_powers_of_1024)
{
	ck_assert_str_eq(text_bytes(0).text, "0 B");
	ck_assert_str_eq(text_bytes(1023).text, "1023 B");
	ck_assert_str_eq(text_bytes(1024).text, "1.0 KiB");
	ck_assert_str_eq(text_bytes((1 << 20) - 1).text, "1.0 MiB");
	ck_assert_str_eq(text_bytes(1536ull << 20).text, "1.5 GiB");
	ck_assert_str_eq(text_bytes(UINT64_MAX).text, "16.0 EiB");
}
END_TEST

START_TEST(counts_are_grouped)
{
	ck_assert_str_eq(text_count(0).text, "0");
	ck_assert_str_eq(text_count(999).text, "999");
	ck_assert_str_eq(text_count(1000).text, "1,000");
	ck_assert_str_eq(text_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
}
END_TEST

START_TEST(times_have_a_fitting_unit)
{
	ck_assert_str_eq(text_time(1500).text, "1.5 us");
	ck_assert_str_eq(text_time(12345678).text, "12.3 ms");
	ck_assert_str_eq(text_time(29800000000).text, "29.8 s");
	ck_assert_str_eq(text_time(312000000000).text, "5 min 12 s");
	ck_assert_str_eq(text_time(7320000000000).text, "2 h 2 min");
}
END_TEST

START_TEST(percent_of_nothing_is_a_dash)
{
	ck_assert_str_eq(text_percent(1, 4).text, "25.0 %");
	ck_assert_str_eq(text_percent(0, 0).text, "-");
}
END_TEST

static void check_foreign(const char *string, size_t max, const char *want)
{
	char *got = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&got, &length);
	const struct text text = {.out = out};
	text_foreign(&text, string, max);
	fclose(out);
	ck_assert_str_eq(got, want);
	free(got);
}

START_TEST(foreign_names_are_harmless)
{
	check_foreign("plain(int) const", 100, "plain(int) const");
	check_foreign("\033[31mred\007\r\n\x7f", 100, "[31mred");
	check_foreign("gr\xc3\xbc\xc3\x9f", 100, "gr\xc3\xbc\xc3\x9f");
	check_foreign("c1\xc2\x9b"
		      "31m",
		100, "c131m");
	check_foreign("bidi\xe2\x80\xae"
		      "x",
		100, "bidix");
	check_foreign("bad\xff\xc3", 100, "bad??");
	check_foreign("overlong\xc0\xaf", 100, "overlong??");
	check_foreign("surrogate\xed\xa0\x80", 100, "surrogate???");
}
END_TEST

START_TEST(long_names_lose_their_middle)
{
	check_foreign("0123456789abcdefghij", 13, "01234...fghij");
	check_foreign("0123456789abc", 13, "0123456789abc");
}
END_TEST

START_TEST(no_colour_without_a_terminal)
{
	char *got = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&got, &length);
	ck_assert_int_eq(setenv("TERM", "xterm", 1), 0);
	struct text text = text_to(out);
	ck_assert(!text.has_colour);
	text_styled(&text, TEXT_BOLD, "x");
	text.has_colour = true;
	text_styled(&text, TEXT_BOLD, "y");
	fclose(out);
	ck_assert_str_eq(got, "x\033[1my\033[0m");
	free(got);
}
END_TEST

HT_SUITE("analyzer/text", bytes_are_powers_of_1024, counts_are_grouped, times_have_a_fitting_unit,
	percent_of_nothing_is_a_dash, foreign_names_are_harmless, long_names_lose_their_middle,
	no_colour_without_a_terminal)
