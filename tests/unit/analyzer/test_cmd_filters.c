/* SPDX-License-Identifier: Apache-2.0
 *
 * Each command takes each filter, or refuses it as the table says. Also --limit of source.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/commands.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/analyzer/scene.h"

#define WORDS_MAX 12

static char *trace_path, *suppressions_path;
static char *printed;

/* Writes a trace of one minute, in which "keep" allocates 300, 200 and 100 bytes on three lines
 * after 15 s and keeps them, and a file of suppressions. */
static void make_files(void)
{
	struct scene scene;
	struct bytes_out bytes = {0};
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/bin/app", "12345678901234567890", 0x400000, 0x500000);
	scene.now += 15000000000;
	for (uint32_t i = 0; i < 3; i++) {
		tracebuild_symbol(
			&scene.trace, 1, 0x100 * (i + 1) - 1, "keep", "/src/keep.c", i + 7);
		scene_malloc(&scene, 0, 0x1000 * (i + 1), 300 - 100 * i,
			tracebuild_node(&scene.trace, 0, 0x400000 + 0x100 * (i + 1)));
	}
	scene.now += 45000000000;
	scene_sync(&scene);
	tracebuild_end(&scene.trace, REC_END_DURATION, scene.now, scene.now);
	tracebuild_slurp(tracebuild_finish(&scene.trace), &bytes);
	trace_path = tmpdir_path("trace.htap");
	suppressions_path = tmpdir_path("suppressions");
	FILE *file = fopen(trace_path, "w");
	ck_assert_uint_eq(fwrite(bytes.data, 1, bytes.length, file), bytes.length);
	fclose(file);
	file = fopen(suppressions_path, "w");
	ck_assert_int_gt(fputs("leak:nothing_of_this_name\n", file), 0);
	fclose(file);
	bytes_out_deinit(&bytes);
	scene_deinit(&scene);
}

static void remove_files(void)
{
	free(trace_path);
	free(suppressions_path);
}

/* Runs the command line `word`; `printed` gets the standard output. */
static struct ht_err *run(const char *const *word)
{
	struct bytes_out bytes = {0};
	char *argv[WORDS_MAX + 1] = {0};
	int argc = 0, out = tracebuild_memfd("", 0), saved = dup(STDOUT_FILENO);
	for (; word[argc]; argc++)
		argv[argc] = strdup(word[argc]);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	struct ht_err *err = commands_run(argc, argv);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	tracebuild_slurp(out, &bytes);
	free(printed);
	ck_no_err(bytes_out_u8(&bytes, 0));
	printed = (char *)bytes.data;
	close(out);
	close(saved);
	for (int i = 0; i < argc; i++)
		free(argv[i]);
	return err;
}

struct face {
	const char *name, *second, *third, *fourth; /* words behind the trace */
	const char *refuses; /* options that the command refuses, each followed by a space */
};

static const struct face faces[] = {
	{"report", .refuses = ""},
	{"tree", .refuses = ""},
	{"callers", "keep", .refuses = ""},
	{"flame", .refuses = ""},
	{"source", "keep", .refuses = ""},
	{"diff", "OLD", .refuses = "--class --sort "},
	{"trend", "OLD", .refuses = "--class --sort "},
	{"check", "--max-growth", "1G/min", .refuses = "--class --metric --sort --limit --csv "},
	{"export", "--format", "collapsed", .refuses = "--class --sort --limit --json --csv "},
};

static const struct {
	const char *option, *value;
} filters[] = {
	{"--from", "+10s"},
	{"--to", "+20s"},
	{"--thread", "100"},
	{"--module", "app"},
	{"--function", "keep"},
	{"--exclude", "other"},
	{"--suppressions", "SUPPRESSIONS"},
	{"--min-size", "1"},
	{"--max-size", "1M"},
	{"--min-age", "1ms"},
	{"--max-age", "1h"},
	{"--alive-at", "+30s"},
	{"--class", "unclear"},
	{"--metric", "peak"},
	{"--sort", "calls"},
	{"--limit", "3"},
	{"--json", NULL},
	{"--csv", NULL},
};

static bool refuses(const struct face *face, const char *option)
{
	const char *at = strstr(face->refuses, option);
	return at && at[strlen(option)] == ' ';
}

HT_TEST(each_filter_is_taken_or_refused)
{
	make_files();
	for (size_t i = 0; i < HT_ARRAY_SIZE(faces) * HT_ARRAY_SIZE(filters); i++) {
		const struct face *face = &faces[i / HT_ARRAY_SIZE(filters)];
		const char *option = filters[i % HT_ARRAY_SIZE(filters)].option;
		const char *value = filters[i % HT_ARRAY_SIZE(filters)].value;
		const char *word[WORDS_MAX + 1] = {face->name, trace_path}, **next = word + 2;
		char says[96];
		if (face->second)
			*next++ = strcmp(face->second, "OLD") ? face->second : trace_path;
		if (face->third)
			*next++ = face->third;
		*next++ = option;
		if (value)
			*next++ = strcmp(value, "SUPPRESSIONS") ? value : suppressions_path;
		struct ht_err *err = run(word);
		if (!refuses(face, option)) {
			ck_assert_msg(
				!err, "%s %s: %s", face->name, option, err ? err->message : "");
			continue;
		}
		snprintf(
			says, sizeof(says), "%s: option %s belongs to heaptap", face->name, option);
		ck_err_says(err, HT_ERR_USAGE, says);
	}
	remove_files();
}

/* --limit keeps the lines with most; the lines that remain are in the order of the file. */
HT_TEST(source_prints_the_lines_with_most)
{
	make_files();
	ck_no_err(run((const char *[]){"source", trace_path, "keep", "--csv", NULL}));
	ck_assert_ptr_nonnull(strstr(printed, "\"/src/keep.c\",7,300,"));
	ck_assert_ptr_nonnull(strstr(printed, "\"/src/keep.c\",8,200,"));
	ck_assert_ptr_nonnull(strstr(printed, "\"/src/keep.c\",9,100,"));
	ck_no_err(
		run((const char *[]){"source", trace_path, "keep", "--csv", "--limit", "2", NULL}));
	ck_assert_ptr_nonnull(strstr(printed, "\"/src/keep.c\",7,300,"));
	ck_assert_ptr_nonnull(strstr(printed, "\"/src/keep.c\",8,200,"));
	ck_assert_ptr_null(strstr(printed, "\"/src/keep.c\",9,"));
	ck_no_err(run(
		(const char *[]){"source", trace_path, "keep", "--json", "--limit", "1", NULL}));
	ck_assert_ptr_nonnull(strstr(printed, "\"total\":300"));
	ck_assert_ptr_null(strstr(printed, "\"total\":200"));
	remove_files();
}

HT_SUITE("analyzer/cmd_filters")
