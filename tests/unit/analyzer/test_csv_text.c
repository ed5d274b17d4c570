/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts as fields of comma-separated values: quoted, and nothing that a spreadsheet would compute.
 */
#include "analyzer/export/csv_text.h"

#include <stdlib.h>

#include "tests/support/ht_check.h"

static void check(const char *text, const char *want)
{
	char *bytes = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&bytes, &length);
	csv_put_text(out, text);
	fclose(out);
	ck_assert_str_eq(bytes, want);
	free(bytes);
}

HT_TEST(a_text_is_quoted)
{
	check("plain", "\"plain\"");
	check("", "\"\"");
	check("a,b", "\"a,b\"");
	check("say \"x\"", "\"say \"\"x\"\"\"");
	check("\"", "\"\"\"\"");
}

HT_TEST(nothing_is_an_empty_field)
{
	check(NULL, "");
}

HT_TEST(a_formula_is_text)
{
	check("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\"");
	check("+1", "\"'+1\"");
	check("-1", "\"'-1\"");
	check("@x", "\"'@x\"");
	check("a=1", "\"a=1\"");
	/* Spreadsheets pass over spaces in front of a formula. */
	check("\t=1", "\"' =1\"");
	check(" =1", "\"' =1\"");
}

HT_TEST(a_field_is_one_line)
{
	check("a\nb\r\nc\td", "\"a b  c d\"");
	check("\x1b[31mred\x7f", "\" [31mred \"");
}

HT_SUITE("analyzer/csv_text")
