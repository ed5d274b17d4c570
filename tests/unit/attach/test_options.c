/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/cli/help.h"
#include "format/quantity.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/attach/words.h"

#define NS_PER_S 1000000000ull
#define HOUR_NS	 (3600 * NS_PER_S)
#define YEARS_10 (10ull * 365 * 24 * HOUR_NS)

HT_TEST(durations)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{"30s", 30 * NS_PER_S},
		{"5m", 300 * NS_PER_S},
		{"1h", HOUR_NS},
		{"2d", 48 * HOUR_NS},
		{"250ms", 250000000},
		{"0.5s", 500000000},
		{"1.5h", HOUR_NS + HOUR_NS / 2},
		{"0.25", 250000000},
		{"1h0.5m", HOUR_NS + 30 * NS_PER_S},
		{"1h30m", HOUR_NS + 1800 * NS_PER_S},
		{"1m1s1ms", 61001000000},
		{"10", 10 * NS_PER_S},
		{"007", 7 * NS_PER_S},
		{"1ms", 1000000},
		{"0s5s", 5 * NS_PER_S},
		{"3650d", YEARS_10},
		{"315360000", YEARS_10},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(good); i++) {
		uint64_t ns = 0;
		ck_assert_msg(!quantity_duration(good[i].text, &ns), "%s", good[i].text);
		ck_assert_msg(ns == good[i].ns, "%s: %lu", good[i].text, (unsigned long)ns);
	}
}

HT_TEST(nonsense_is_no_duration)
{
	static const char *const bad[] = {"", "0", "0s", "0h0m", "-1s", "+1s", " 1s", "1s ", "1 s",
		"s", "ms", "1x", "1us", "1.s", ".5s", "1.2.3s", "0.0s", "-1.5s", "1e3s", "0x10s",
		"1sec", "1S", "1h30", "30 m", "1hh", "1mss", "3651d", "315360001", "3650d1ms",
		"18446744073709551616", "18446744073709551615s", "99999999999999999999s",
		"9223372036854775807h", "213503982334602d", "\xb2s"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(bad); i++) {
		uint64_t ns = 17;
		ck_assert_msg(quantity_duration(bad[i], &ns), "\"%s\"", bad[i]);
		ck_assert_uint_eq(ns, 17);
	}
}

HT_TEST(sizes)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"1", 1},
		{"524288", 524288},
		{"512K", 524288},
		{"512KiB", 524288},
		{"64k", 65536},
		{"64kib", 65536},
		{"1.5M", 3 << 19},
		{"0.5k", 512},
		{"1M", 1 << 20},
		{"3MiB", 3 << 20},
		{"1024G", 1ull << 40},
		{"1GiB", 1 << 30},
		{"1099511627776", 1ull << 40},
	};
	static const char *const bad[] = {"", "K", "-1", "+1", " 1", "1 K", "1KB", "1Ki", "1KiBs",
		"1T", "0x10", "1.5", "1.M", "1024.5G", "1025G", "1099511627777",
		"1125899906842624K", "18446744073709551616", "18014398509481984K"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(good); i++) {
		uint64_t bytes = 17;
		ck_assert_msg(!quantity_size(good[i].text, &bytes), "%s", good[i].text);
		ck_assert_msg(
			bytes == good[i].bytes, "%s: %lu", good[i].text, (unsigned long)bytes);
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(bad); i++) {
		uint64_t bytes = 17;
		ck_assert_msg(quantity_size(bad[i], &bytes), "\"%s\"", bad[i]);
		ck_assert_uint_eq(bytes, 17);
	}
}

HT_TEST(spellings)
{
	static const char *const same[] = {
		"attach -p 42 -d 5s -o out",
		"attach -p42 -d5s -oout",
		"attach --pid 42 --duration 5s --output out",
		"attach --pid=42 --duration=5s --output=out",
		"-p 42 -d 5s -o out",
		"--pid=42 -d5s -o out",
		"attach -o out -d 5s -p 42",
		"attach -p 42 -d 9h -o other -p 42 -d 5s -o out",
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(same); i++) {
		struct options options;
		ck_no_err(parse(same[i], &options));
		ck_assert_int_eq(options.command, COMMAND_ATTACH);
		ck_assert_int_eq(options.pid, 42);
		ck_assert_uint_eq(options.duration_ns, 5 * NS_PER_S);
		ck_assert_str_eq(options.output, "out");
		options_deinit(&options);
		ck_assert_ptr_null(options.output);
		options_deinit(&options);
	}
}

HT_TEST(defaults)
{
	struct options options;
	ck_no_err(parse("attach -p 1", &options));
	ck_assert_ptr_null(options.output);
	ck_assert_uint_eq(options.duration_ns, 0);
	ck_assert(!options.replace && !options.quiet && !options.json && !options.lossless &&
		  !options.mappings && !options.full_unwind && !options.symbolize_later &&
		  !options.no_cache);
}

HT_TEST(switches)
{
	static const struct {
		const char *words;
		size_t offset;
	} table[] = {
		{"-f", offsetof(struct options, replace)},
		{"--force", offsetof(struct options, replace)},
		{"-q", offsetof(struct options, quiet)},
		{"--quiet", offsetof(struct options, quiet)},
		{"--json", offsetof(struct options, json)},
		{"--lossless", offsetof(struct options, lossless)},
		{"--mmap", offsetof(struct options, mappings)},
		{"--unwind full", offsetof(struct options, full_unwind)},
		{"--unwind=full", offsetof(struct options, full_unwind)},
		{"--symbolize later", offsetof(struct options, symbolize_later)},
		{"--symbolize=later", offsetof(struct options, symbolize_later)},
		{"--no-cache", offsetof(struct options, no_cache)},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		char words[64];
		struct options options;
		snprintf(words, sizeof(words), "attach -p 7 %s", table[i].words);
		ck_no_err(parse(words, &options));
		ck_assert_msg(((bool *)&options)[table[i].offset], "%s", table[i].words);
		int set = options.replace + options.quiet + options.json + options.lossless +
			  options.mappings + options.full_unwind + options.symbolize_later +
			  options.no_cache;
		ck_assert_msg(set == 1, "%s: %d switches", table[i].words, set);
	}
}

HT_TEST(a_page_and_its_name)
{
	static const struct {
		const char *words, *page;
	} table[] = {
		{"attach -p 7 --html", NULL},
		{"attach -p 7 --html -d 5s", NULL},
		{"attach -p 7 --html=x.html", "x.html"},
		{"attach -p 7 --html=x.html --html=y.html", "y.html"},
		{"run --html true", NULL},
		{"run --html=%c.html true", "%c.html"},
		{"run --html -- x.html", NULL},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		struct options options;
		ck_no_err(parse(table[i].words, &options));
		ck_assert(options.html);
		if (table[i].page)
			ck_assert_str_eq(options.page, table[i].page);
		else
			ck_assert_ptr_null(options.page);
		options_deinit(&options);
	}
}

HT_TEST(children_on_request)
{
	struct options options;
	ck_no_err(parse("run --follow-forks true", &options));
	ck_assert(options.follow_forks);
	options_deinit(&options);
	ck_no_err(parse("run true --follow-forks", &options));
	ck_assert(!options.follow_forks);
	options_deinit(&options);
}

HT_TEST(a_page_is_waited_for)
{
	static const struct {
		const char *words;
		uint64_t linger_ns;
		bool strict;
	} table[] = {
		{"attach -p 7", 30000000000, false},
		{"attach -p 7 --linger 0", 0, false},
		{"run --linger 5m true", 300000000000, false},
		{"attach -p 7 --strict --linger=250ms", 250000000, true},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		struct options options;
		ck_no_err(parse(table[i].words, &options));
		ck_assert_uint_eq(options.linger_ns, table[i].linger_ns);
		ck_assert(options.strict == table[i].strict);
		options_deinit(&options);
	}
}

HT_TEST(standard_output_is_a_name)
{
	struct options options;
	ck_no_err(parse("attach -p 7 -o -", &options));
	ck_assert_str_eq(options.output, "-");
	options_deinit(&options);
	ck_no_err(parse("attach -p 7 -o-", &options));
	ck_assert_str_eq(options.output, "-");
	options_deinit(&options);
}

HT_TEST(commands)
{
	static const struct {
		const char *words;
		enum command command;
	} table[] = {
		{"attach -p 1", COMMAND_ATTACH},
		{"run true", COMMAND_RUN},
		{"run -q -d 5s --json -- true", COMMAND_RUN},
		{"run --help", COMMAND_HELP},
		{"doctor -p 1", COMMAND_DOCTOR},
		{"doctor -p 1 --json", COMMAND_DOCTOR},
		{"recover -p 1 -q", COMMAND_RECOVER},
		{"verify -p 1 --json", COMMAND_VERIFY},
		{"cleanup -p 1 -q", COMMAND_CLEANUP},
		{"find -n x", COMMAND_FIND},
		{"find -u x --container 12ab --json", COMMAND_FIND},
		{"status", COMMAND_STATUS},
		{"status -p 1 --json", COMMAND_STATUS},
		{"list -q", COMMAND_LIST},
		{"stop -p 1 --wait", COMMAND_STOP},
		{"pause -p 1", COMMAND_PAUSE},
		{"resume -p 1", COMMAND_RESUME},
		{"mark -p 1 text", COMMAND_MARK},
		{"mark text -p 1", COMMAND_MARK},
		{"version", COMMAND_VERSION},
		{"--version", COMMAND_VERSION},
		{"attach --version", COMMAND_VERSION},
		{"help", COMMAND_HELP},
		{"help report", COMMAND_HELP},
		{"completion", COMMAND_COMPLETION},
		{"--help", COMMAND_HELP},
		{"-h", COMMAND_HELP},
		{"doctor --help", COMMAND_HELP},
		{"report --json anything -x", COMMAND_ANALYZE},
		{"export f --format collapsed -o x", COMMAND_ANALYZE},
		{"info f", COMMAND_ANALYZE},
		{"dump f", COMMAND_ANALYZE},
		{"symbols f", COMMAND_ANALYZE},
		{"some.htap", COMMAND_ANALYZE},
		{"-", COMMAND_ANALYZE},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		struct options options;
		ck_no_err(parse(table[i].words, &options));
		ck_assert_msg(options.command == table[i].command, "%s: %d", table[i].words,
			(int)options.command);
		options_deinit(&options);
	}
}

HT_TEST(several_processes)
{
	struct options options;
	ck_no_err(parse("attach -p 1 -p 2 -p 1 -d 5s", &options));
	ck_assert_uint_eq(options.pid_count, 2);
	ck_assert_int_eq(options.pids[0], 1);
	ck_assert_int_eq(options.pids[1], 2);
	ck_no_err(parse("attach -p 1 -p 2 -o %p.htap", &options));
	options_deinit(&options);
	ck_err_says(parse("attach -p 1 -p 2 -o x.htap", &options), HT_ERR_USAGE, "several names");
	ck_no_err(parse("doctor -p 1 -p 2", &options));
	ck_assert_uint_eq(options.pid_count, 1);
	ck_assert_int_eq(options.pid, 2);
}

HT_TEST(a_process_by_other_names)
{
	struct options options;
	ck_no_err(parse("attach -n x -u y --container 01ab -d 5s", &options));
	ck_assert_str_eq(options.find.name, "x");
	ck_assert_str_eq(options.find.unit, "y");
	ck_assert_str_eq(options.find.container, "01ab");
	ck_assert(!options.wait_for && options.pid == 0);
	ck_no_err(parse("-n x", &options));
	ck_assert_int_eq(options.command, COMMAND_ATTACH);
	ck_no_err(parse("--wait-for x", &options));
	ck_assert_str_eq(options.find.name, "x");
	ck_assert(options.wait_for);
	ck_err_says(parse("-p 7 -u x", &options), HT_ERR_USAGE, "x: -p names the process already");
	ck_err_says(parse("attach --name=", &options), HT_ERR_USAGE, "the name is empty");
	ck_err_says(parse("doctor --container 01a", &options), HT_ERR_USAGE, "4 to 64");
	ck_err_says(parse("doctor --container 01ag", &options), HT_ERR_USAGE, "4 to 64");
	ck_err_says(parse("doctor --wait-for x", &options), HT_ERR_USAGE, "only attach has");
	ck_err_says(
		parse("run -n x true", &options), HT_ERR_USAGE, "run starts the process itself");
}

HT_TEST(the_text_of_a_mark)
{
	struct options options;
	ck_no_err(parse("mark -p 1 -- -x", &options));
	ck_assert_str_eq(options.text, "-x");
	options_deinit(&options);
	ck_no_err(parse("mark -p 1 - -q", &options));
	ck_assert_str_eq(options.text, "-");
	ck_assert(options.quiet);
	options_deinit(&options);
	ck_err_says(parse("mark -p 1 -x", &options), HT_ERR_USAGE, "no such option");
	ck_err_says(parse("mark -p 1", &options), HT_ERR_USAGE, "the text is missing");
	ck_err_says(parse("mark -p 1 a b", &options), HT_ERR_USAGE, "not expected");
	ck_err_says(parse("mark a", &options), HT_ERR_USAGE, "the process is missing");
}

HT_TEST(wrong_words_are_named)
{
	static const struct {
		const char *words, *says;
	} table[] = {
		{"attach -p 7 --sample 1T", "1T: not a size"},
		{"attach -p 7 --sample", "--sample: needs a value"},
		{"attach -p 7 --cull", "--cull: needs a value"},
		{"attach -p 7 --cull 0", "--cull 0: not a duration: it is zero"},
		{"attach -p 7 --cull -o x", "--cull: needs a value"},
		{"attach -p 7 --sample --json", "--sample: needs a value"},
		{"attach -p 7 --cull 10s --sample 64k", "--cull --sample: a sample has no sums"},
		{"status -p 7 --cull 10s", "--cull: only attach and run have this option"},
		{"attach -p 7 --linger soon", "soon: not a duration"},
		{"cleanup -p 7 --strict", "--strict: only attach and run have this option"},
		{"doctor -p 7 --sample 1M", "--sample: only attach and run have this option"},
		{"", "--help"},
		{"attach -p 7 -d -5s", "-5s: not a duration: it is negative"},
		{"attach -p 7 -d 5parsecs", "5parsecs: not a duration: its unit is not ms"},
		{"attach -p 7 -d 99999999d", "99999999d: not a duration: it is more than ten"},
		{"attach -p 7 --sample 5Q", "5Q: not a size: its unit is not K"},
		{"attach -p 7 --sample -5K", "-5K: not a size: it is negative"},
		{"attach -p 7 --durtaion 5s",
			"--durtaion: no such option; did you mean --duration"},
		{"attach -p 7 --sampel=5k", "--sampel=5k: no such option; did you mean --sample?"},
		{"atach -p 7",
			"atach is neither a command nor a file; did you mean heaptap attach?"},
		{"reprot", "did you mean heaptap report?"},
		{"help xyzzy", "xyzzy: no such command"},
		{"help completion", "completion: no such command"},
		{"xyzzy", "xyzzy: neither a command nor a file"},
		{"attach", "the process is missing: -p PID"},
		{"doctor", "the process is missing: -p PID"},
		{"recover", "the process is missing: -p PID"},
		{"verify", "the process is missing: -p PID"},
		{"cleanup", "the process is missing: -p PID"},
		{"find", "the process is missing: -p PID, or -n NAME"},
		{"-d 5s", "the process is missing: -p PID"},
		{"attach -p", "-p: needs a value"},
		{"attach -p 7 -d", "-d: needs a value"},
		{"attach -p 7 --duration", "--duration: needs a value"},
		{"attach -p 0", "0: not a process number"},
		{"attach -p -3", "-3: not a process number"},
		{"attach -p 12x", "12x: not a process number"},
		{"attach -p redis", "redis: not a process number"},
		{"attach -p 4294967297", "4294967297: not a process number"},
		{"attach -p 99999999999999999999", "not a process number"},
		{"attach --pid=", ": not a process number"},
		{"attach -p 7 -d 0", "0: not a duration"},
		{"attach -p 7 -d soon", "soon: not a duration"},
		{"attach -p 7 --duration=", ": not a duration"},
		{"attach -p 7 --output=", "needs a name"},
		{"attach -p 7 --unwind half", "half: "},
		{"attach -p 7 --symbolize now", "now: "},
		{"attach -p 7 -z", "-z: no such option"},
		{"attach -p 7 --durations 5s",
			"--durations: no such option; did you mean --duration?"},
		{"attach -p 7 --zzzz", "--zzzz: no such option; see heaptap attach --help"},
		{"attach -p 7 --every -3s", "--every -3s: it is negative"},
		{"attach -p 7 --keep 0", "--keep 0: not a number from 1 to 1000000"},
		{"attach -p 7 --trigger-rss foo", "--trigger-rss foo: a number with a unit"},
		{"attach -p 7 --max-size 5K", "--max-size 5K: less than 16K"},
		{"attach -p 7 --on-full x", "--on-full x: it is neither stop nor rotate"},
		{"attach -p 7 --dur 5s", "--dur: no such option"},
		{"attach -p 7 --", "the command is missing behind --"},
		{"attach -p 7 -q1", "-q1: takes no value"},
		{"attach -p 7 --json=yes", "--json=yes: takes no value"},
		{"attach -p 7 9", "9: not expected here"},
		{"attach 7", "7: not expected here; a process is named with -p"},
		{"attach redis", "redis: not expected here; see heaptap --help"},
		{"attach -p 7 -", "-: not expected here"},
		{"attach -p 7 -o x%d", "x%d: % must be followed by"},
		{"attach -p 7 -o x%", "x%: % must be followed by"},
		{"run", "the command is missing"},
		{"run --", "the command is missing"},
		{"run -d 5s", "the command is missing"},
		{"run -p 7 true", "-p: run starts the process itself"},
		{"run -o - true", "-o -: standard output belongs to the command"},
		{"run -x true", "-x: no such option"},
		{"attach -p 7 --follow-forks", "--follow-forks: only run has this option"},
		{"attach -p 7 --hook code", "--hook takes slot, auto or entry"},
		{"doctor -p 7 --hook auto", "--hook: only attach and run have this option"},
		{"attach -p 7 --alloc-fn f", "--alloc-fn f: expected NAME=KIND"},
		{"verify -p 7 --alloc-fn f=free",
			"--alloc-fn: only attach, run and doctor have this option"},
		{"doctor -p 7 -d 5s", "-d: only attach and run have this option"},
		{"doctor -p 7 -o x", "-o: only attach and run have this option"},
		{"recover -p 7 --lossless", "--lossless: only attach and run have this option"},
		{"verify -p 7 -f", "-f: only attach and run have this option"},
		{"cleanup -p 7 -d 5s", "-d: only attach and run have this option"},
		{"doctor -p 7 --html", "--html: only attach and run have this option"},
		{"attach -p 7 --html=", "--html=: the page needs a name"},
		{"attach -p 7 --html=-", "--html=-: the page is a file; name it"},
		{"attach -p 7 --html=x%d", "x%d: % must be followed by"},
		{"attach -p 7 --html x.html", "x.html: not expected here; write --html=x.html"},
		{"run --html x.html true", "x.html: not expected here; write --html=x.html"},
		{"attach -p 7 -o - --html=x", "--html: the page needs a trace in a file"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		struct options options;
		ck_err_says(parse(table[i].words, &options), HT_ERR_USAGE, table[i].says);
		ck_assert_ptr_null(options.output);
	}
}

HT_TEST(the_command_of_run)
{
	static const struct {
		const char *words, *first, *second;
	} table[] = {
		{"run true", "true", NULL},
		{"run -q ls -l", "ls", "-l"},
		{"run -d 5s -- ls --help", "ls", "--help"},
		{"run -o x -- -odd -q", "-odd", "-q"},
		{"run -- -- x", "--", "x"},
		{"run ls -- x", "ls", "--"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		struct options options;
		ck_no_err(parse(table[i].words, &options));
		ck_assert_str_eq(options.words[0], table[i].first);
		ck_assert_pstr_eq(options.words[1], table[i].second);
		options_deinit(&options);
	}
}

HT_TEST(an_error_keeps_nothing)
{
	struct options options;
	ck_err(parse("attach -p 7 -o x -o y -d 0", &options), HT_ERR_USAGE);
	ck_assert_ptr_null(options.output);
	ck_assert_int_eq(options.pid, 0);
}

HT_TEST(an_overhead_is_a_share)
{
	static const struct {
		const char *word;
		uint64_t ppm; /* 0: refused */
	} cases[] = {{"5%", 50000}, {"5", 50000}, {"0.5%", 5000}, {"100%", 1000000}, {"0.01%", 100},
		{"0%", 0}, {"101%", 0}, {"-5%", 0}, {"nan", 0}, {"5%%", 0}, {"5x", 0}, {"", 0},
		{"0x5", 0}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		char words[64];
		struct options options = {0};
		snprintf(words, sizeof(words), "attach -p 7 --max-overhead=%s", cases[i].word);
		struct ht_err *err = parse(words, &options);
		ck_assert_msg(!err == (cases[i].ppm != 0), "%s", words);
		ck_assert_uint_eq(options.max_overhead_ppm, cases[i].ppm);
		ht_err_free(err);
		options_deinit(&options);
	}
}

HT_SUITE("attach/options")
