/* SPDX-License-Identifier: Apache-2.0 */
#include "format/foreign.h"

#include <stdio.h>

#include "tests/support/ht_check.h"

static void check_copy(const char *from, size_t bytes, const char *want)
{
	char to[64];
	foreign_copy(to, bytes, from);
	ck_assert_str_eq(to, want);
	/* Source and destination may be the same. */
	snprintf(to, sizeof(to), "%s", from);
	foreign_copy(to, bytes, to);
	ck_assert_str_eq(to, want);
}

HT_TEST(copied_text_is_harmless)
{
	check_copy("", 64, "");
	check_copy("/usr/lib/gr\xc3\xbc\xc3\x9f.so", 64, "/usr/lib/gr\xc3\xbc\xc3\x9f.so");
	check_copy("\033[31mred\a\r\n\x7f", 64, "[31mred");
	check_copy("c1\xc2\x9b|bidi\xe2\x80\xae|", 64, "c1|bidi|");
	check_copy("bad\xff\xc3", 64, "bad??");
	check_copy("overlong\xc0\xaf", 64, "overlong??");
}

HT_TEST(long_text_is_cut_between_characters)
{
	check_copy("abc", 4, "abc");
	check_copy("abcd", 4, "abc");
	check_copy("ab\xc3\xbc", 4, "ab");
	check_copy("ab\xc3\xbc", 5, "ab\xc3\xbc");
	check_copy("a\xe2\x82\xacz", 4, "a");
	check_copy("a", 1, "");
}

HT_SUITE("format/foreign")
