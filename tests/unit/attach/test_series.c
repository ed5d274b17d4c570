/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a series of windows are parsed, and combinations that do not fit are refused.
 */
#include "attach/cli/series.h"

#include <string.h>

#include "attach/cli/options.h"
#include "tests/support/ht_check.h"
#include "tests/unit/attach/words.h"

#define NS_PER_S 1000000000ull

HT_TEST(options_of_a_series)
{
	struct options options;
	ck_no_err(parse("attach -p 7 -d 30s --every 10m --count 6 --keep 3 --delay 5s", &options));
	ck_assert_uint_eq(options.series.every_ns, 600 * NS_PER_S);
	ck_assert_uint_eq(options.series.delay_ns, 5 * NS_PER_S);
	ck_assert_uint_eq(options.series.count, 6);
	ck_assert_uint_eq(options.series.keep, 3);
	options_deinit(&options);
	ck_no_err(parse("-p 7 --trigger-rss 12G --trigger-growth 100M/min --until-rss 1G "
			"--until-growth 2G --max-size 5M --on-full rotate",
		&options));
	ck_assert_uint_eq(options.series.trigger_rss_bytes, 12ull << 30);
	ck_assert_uint_eq(options.series.trigger_growth.span_ns, 60 * NS_PER_S);
	ck_assert_uint_eq(options.series.until_rss_bytes, 1ull << 30);
	ck_assert_uint_eq(options.series.until_growth.bytes, 2ull << 30);
	ck_assert_uint_eq(options.series.max_bytes, 5u << 20);
	ck_assert(options.series.rotate);
	options_deinit(&options);
	ck_no_err(parse("attach -p 7 -d 1s -- sleep 5", &options));
	ck_assert_str_eq(options.words[0], "sleep");
	options_deinit(&options);
}

/* Each message says what is missing. */
HT_TEST(options_of_a_series_that_do_not_fit)
{
	static const struct {
		const char *words, *part;
	} bad[] = {
		{"-p 7 --every 10m", "add -d TIME"},
		{"-p 7 --every 10s -d 10s", "is too short"},
		{"-p 7 --count 3 -d 1s", "needs --every or a trigger"},
		{"-p 7 --count 3 --trigger-rss 1G", "add -d TIME"},
		{"-p 7 --keep 3 -d 1s", "needs several traces"},
		{"-p 7 --on-full=rotate", "needs --max-size"},
		{"-p 7 --on-full=rotate --max-size 1M --count 2", "excludes"},
		{"-p 7 --on-full=never", "neither stop nor rotate"},
		{"-p 7 --every 10s -d 1s -o -", "need files"},
		{"-p 7 --exec true -o -", "needs a trace in a file"},
		{"-p 7 --count 0", "from 1 to"},
		{"-p 7 --count -1", "from 1 to"},
		{"-p 7 --keep many", "from 1 to"},
		{"-p 7 --trigger-growth 1M/", "1M/"},
		{"-p 7 --max-size 1K", "less than 16K"},
		{"-p 7 --", "command is missing"},
		{"-p 7 -d 1s --every 5s -- true", "one window"},
		{"run --every 5s true", "only attach"},
		{"doctor -p 7 --delay 5s", "only attach"},
	};
	struct options options;
	for (size_t i = 0; i < HT_ARRAY_SIZE(bad); i++) {
		struct ht_err *err = parse(bad[i].words, &options);
		ck_assert_msg(err && err->code == HT_ERR_USAGE, "%s", bad[i].words);
		ck_assert_msg(strstr(err->message, bad[i].part) != NULL, "%s: %s", bad[i].words,
			err->message);
		ht_err_free(err);
	}
}

HT_SUITE("attach/cli/series")
