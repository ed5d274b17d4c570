/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for people, and names that cannot steer a terminal.
 */
#include "analyzer/ui/text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"

HT_TEST(bytes_are_powers_of_1024)
{
	ck_assert_str_eq(text_bytes(0).text, "0 B");
	ck_assert_str_eq(text_bytes(1023).text, "1023 B");
	ck_assert_str_eq(text_bytes(1024).text, "1.0 KiB");
	ck_assert_str_eq(text_bytes((1 << 20) - 1).text, "1.0 MiB");
	ck_assert_str_eq(text_bytes(1536ull << 20).text, "1.5 GiB");
	ck_assert_str_eq(text_bytes(UINT64_MAX).text, "16.0 EiB");
}

HT_TEST(counts_are_grouped)
{
	ck_assert_str_eq(text_count(0).text, "0");
	ck_assert_str_eq(text_count(999).text, "999");
	ck_assert_str_eq(text_count(1000).text, "1,000");
	ck_assert_str_eq(text_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
}

HT_TEST(times_have_a_fitting_unit)
{
	ck_assert_str_eq(text_time(1500).text, "1.5 us");
	ck_assert_str_eq(text_time(12345678).text, "12.3 ms");
	ck_assert_str_eq(text_time(29800000000).text, "29.8 s");
	ck_assert_str_eq(text_time(312000000000).text, "5 min 12 s");
	ck_assert_str_eq(text_time(7320000000000).text, "2 h 2 min");
}

HT_TEST(percent_of_nothing_is_a_dash)
{
	ck_assert_str_eq(text_percent(1, 4).text, "25.0 %");
	ck_assert_str_eq(text_percent(0, 0).text, "-");
}

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

HT_TEST(foreign_names_are_harmless)
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

HT_TEST(long_names_lose_their_middle)
{
	check_foreign("0123456789abcdefghij", 13, "01234...fghij");
	check_foreign("0123456789abc", 13, "0123456789abc");
}

HT_TEST(no_colour_without_a_terminal)
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

static void check_elided(const char *string, unsigned columns, const char *want, unsigned takes)
{
	char *got = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&got, &length);
	const struct text text = {.out = out};
	unsigned taken = text_elided(&text, string, columns);
	fclose(out);
	ck_assert_str_eq(got, want);
	ck_assert_uint_eq(taken, takes);
	free(got);
}

/* WIDE: U+65E5, two columns wide; ACCENT: U+0301, a combining accent. */
#define WIDE   "\xe6\x97\xa5"
#define ACCENT "\xcc\x81"

HT_TEST(the_middle_of_a_long_name_is_left_out)
{
	check_elided("short", 5, "short", 5);
	check_elided("longer", 5, "l...r", 5);
	check_elided("longer", 1, "l...r", 5);
	check_elided("std::vector<int>::push_back", 13, "std::..._back", 13);
	check_elided("std::vector<int>::push_back", 27, "std::vector<int>::push_back", 27);
	check_elided("\033[31mred", 20, "[31mred", 7);
	check_elided("a\xff\xff\xff\xff\xff\xff\xff"
		     "b",
		7, "a?...?b", 7);
}

HT_TEST(columns_are_those_of_the_terminal)
{
	check_elided(WIDE WIDE WIDE, 6, WIDE WIDE WIDE, 6);
	check_elided(WIDE WIDE WIDE WIDE WIDE WIDE, 11, WIDE WIDE "..." WIDE WIDE, 11);
	check_elided(WIDE WIDE WIDE WIDE WIDE WIDE, 10, WIDE "..." WIDE WIDE, 9);
	check_elided("e" ACCENT "bcdefgh", 8, "e" ACCENT "bcdefgh", 8);
	check_elided("ab" ACCENT "cdefgh", 7, "ab" ACCENT "...gh", 7);
	/* An accent is not kept without its letter. */
	check_elided("abcdef" ACCENT "gh", 7, "ab...gh", 7);
	ck_assert_uint_eq(text_columns(WIDE "e" ACCENT "\xff\033"), 4);
}

static void check_sparkline(const uint64_t *value, size_t count, uint64_t lowest, unsigned columns,
	bool has_utf8, const char *want)
{
	char *got = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&got, &length);
	const struct text text = {.out = out, .has_utf8 = has_utf8};
	unsigned cells = text_sparkline(&text, value, count, lowest, columns);
	fclose(out);
	ck_assert_str_eq(got, want);
	ck_assert_uint_eq(cells, strlen(want) / (has_utf8 ? 3 : 1));
	free(got);
}

HT_TEST(sparklines)
{
	static const uint64_t stairs[] = {0, 1, 2, 3, 4, 5, 6, 7}, zero[] = {0, 0},
			      base[] = {1000, 1000, 1007}, most[] = {0, UINT64_MAX},
			      spike[] = {0, 0, 9, 0, 0, 0, 0, 0};
	check_sparkline(stairs, 8, 0, 80, false, "_.:-=+*#");
	check_sparkline(stairs, 8, 0, 80, true,
		"\xe2\x96\x81\xe2\x96\x82\xe2\x96\x83\xe2\x96\x84"
		"\xe2\x96\x85\xe2\x96\x86\xe2\x96\x87\xe2\x96\x88");
	check_sparkline(zero, 2, 0, 80, false, "__");
	check_sparkline(base, 3, 0, 80, false, "**#");
	check_sparkline(base, 3, 1000, 80, false, "__#");
	check_sparkline(base, 3, 2000, 80, false, "___");
	check_sparkline(most, 2, 0, 80, false, "_#");
	check_sparkline(stairs, 8, 0, 4, false, ".-+#");
	check_sparkline(spike, 8, 0, 3, false, "_#_");
	check_sparkline(stairs, 0, 0, 80, false, "");
}

HT_SUITE("analyzer/text")
