/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of the known words a mistyped word is closest to.
 */
#include "format/closest.h"

#include "tests/support/ht_check.h"

static const char *match(const char *word)
{
	static const char *const names[] = {
		"attach", "run", "doctor", "report", "export", "info", "dump", "duration"};
	struct closest closest = {.word = word};
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++)
		closest_try(&closest, names[i]);
	return closest.match ? closest.match : "";
}

HT_TEST(near_words_are_found)
{
	static const char *const pairs[][2] = {
		{"atach", "attach"},
		{"attahc", "attach"},
		{"reprot", "report"},
		{"eport", "report"},
		{"expor", "export"},
		{"dmup", "dump"},
		{"rnu", "run"},
		{"docter", "doctor"},
		{"dur", "duration"},
		{"report", "report"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(pairs); i++)
		ck_assert_str_eq(match(pairs[i][0]), pairs[i][1]);
}

HT_TEST(others_are_not)
{
	static const char *const words[] = {"", "x", "at", "my.htap", "profile", "redis-server",
		"a word that is longer than any name of a command or an option"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(words); i++)
		ck_assert_str_eq(match(words[i]), "");
}

HT_SUITE("format/closest")
