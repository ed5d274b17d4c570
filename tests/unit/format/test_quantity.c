/* SPDX-License-Identifier: Apache-2.0
 *
 * The message for a time or size that is refused. test_options tests those that are accepted.
 */
#include "format/quantity.h"

#include <string.h>

#include "tests/support/ht_check.h"

HT_TEST(each_problem_has_its_words)
{
	static const struct {
		const char *text, *duration, *size;
	} wrong[] = {
		{"", "is empty", "a number with a unit"},
		{"-5s", "negative", "negative"},
		{"-5k", "negative", "negative"},
		{"5lightyears", "unit is not ms", "unit is not K"},
		{"0s", "is zero", "unit is not"},
		{"five", "a number with a unit", "a number with a unit"},
		{"1.", "a number with a unit", "a number with a unit"},
		{"99999999999999999999999", "more than ten years", "more than 1024G"},
		{"0.5", NULL, "a whole number of bytes"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		uint64_t value;
		const char *duration = quantity_duration(wrong[i].text, &value);
		const char *size = quantity_size(wrong[i].text, &value);
		if (wrong[i].duration)
			ck_assert_msg(duration && strstr(duration, wrong[i].duration), "%s: %s",
				wrong[i].text, duration);
		ck_assert_msg(size && strstr(size, wrong[i].size), "%s: %s", wrong[i].text, size);
	}
}

HT_TEST(durations_are_printed_as_a_person_types_them)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} table[] = {{3600000000000, "1 h"}, {5400000000000, "90 min"}, {60000000000, "1 min"},
		{90000000000, "90 s"}, {10000000000, "10 s"}, {2500000000, "2.5 s"},
		{250000000, "250 ms"}, {500000, "0.5 ms"}, {0, "0 s"}};
	char text[QUANTITY_TEXT_BYTES];
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++)
		ck_assert_str_eq(quantity_duration_text(table[i].ns, text), table[i].text);
}

HT_SUITE("format/quantity")
