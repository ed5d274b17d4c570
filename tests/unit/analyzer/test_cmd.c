/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands: their options, their errors, and what symbols --emit gives the daemon.
 */
#include "analyzer/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/analyzer/module_here.h"
#include "tests/unit/analyzer/scene.h"

#define ARGS_MAX 12

/* Runs a command with its arguments; `ret`, unless NULL, gets the standard output. */
static struct ht_err *run(const char *const args[], struct bytes_out *ret)
{
	char *argv[ARGS_MAX + 1] = {0};
	int argc = 0;
	while (args[argc]) {
		argv[argc] = strdup(args[argc]);
		argc++;
	}
	int out = tracebuild_memfd("", 0), saved = dup(STDOUT_FILENO);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	struct ht_err *err = commands_run(argc, argv);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	if (ret)
		tracebuild_slurp(out, ret);
	close(out);
	close(saved);
	for (int i = 0; i < argc; i++)
		free(argv[i]);
	return err;
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Writes a trace of two blocks into a file. Returns the path, malloc'd. */
static char *make_trace(void)
{
	struct scene scene;
	scene_init(&scene);
	uint32_t node = tracebuild_node(&scene.trace, 0, 0x10);
	scene_malloc(&scene, 0, 0x1000, 100, node);
	scene_malloc(&scene, 0, 0x2000, 20, 0);
	scene_sync(&scene);
	tracebuild_end(&scene.trace, REC_END_DURATION, scene.now, scene.now);
	struct bytes_out bytes = {0};
	tracebuild_slurp(tracebuild_finish(&scene.trace), &bytes);
	char *path = tmpdir_path("trace.htap");
	FILE *file = fopen(path, "w");
	ck_assert_uint_eq(fwrite(bytes.data, 1, bytes.length, file), bytes.length);
	fclose(file);
	bytes_out_deinit(&bytes);
	scene_deinit(&scene);
	return path;
}

static void check_output(struct bytes_out *out, const char *want)
{
	ck_no_err(bytes_out_u8(out, 0));
	ck_assert_msg(strstr((const char *)out->data, want), "no \"%s\" in %s", want,
		(const char *)out->data);
	bytes_out_deinit(out);
}

HT_TEST(reports_have_two_faces)
{
	char *path = make_trace();
	struct bytes_out out = {0};
	ck_no_err(run(ARGS("report", path), &out));
	check_output(&out, "allocations  2 of 120 B");
	out = (struct bytes_out){0};
	ck_no_err(run(ARGS("report", "--json", path, "--limit=0"), &out));
	check_output(&out, "\"schema\":\"heaptap.report/2\"");
	out = (struct bytes_out){0};
	ck_no_err(run(ARGS("report", "--json", path, "--min-size=50"), &out));
	check_output(&out, "\"totals\":{\"samples\":1,\"allocations\":1,\"allocated_bytes\":100,");
	out = (struct bytes_out){0};
	ck_no_err(run(ARGS("report", path, "--min-size=1G"), &out));
	check_output(&out, "the options choose no allocation of this window");
	out = (struct bytes_out){0};
	ck_no_err(run(ARGS("report", "--show-wrappers", path), &out));
	check_output(&out, "allocations  2 of 120 B");
	out = (struct bytes_out){0};
	ck_no_err(run(ARGS("info", path), &out));
	check_output(&out, "complete");
	out = (struct bytes_out){0};
	ck_no_err(run(ARGS("dump", path), &out));
	check_output(&out, "alloc malloc addr=0x1000 size=100 stack=1\n");
	free(path);
}

HT_TEST(colours_on_request)
{
	char *path = make_trace();
	struct bytes_out out = {0};
	setenv("CLICOLOR_FORCE", "1", true);
	unsetenv("NO_COLOR");
	ck_no_err(run(ARGS("report", "--color", "never", path), &out));
	ck_no_err(bytes_out_u8(&out, 0));
	ck_assert_ptr_null(strchr((const char *)out.data, '\033'));
	bytes_out_deinit(&out);
	unsetenv("CLICOLOR_FORCE");
	out = (struct bytes_out){0};
	ck_no_err(run(ARGS("report", "--color=always", path), &out));
	check_output(&out, "\033[1m");
	free(path);
}

/* Makes standard output a terminal of `rows` rows. */
static void use_terminal(unsigned short rows)
{
	const struct winsize size = {.ws_col = 80, .ws_row = rows};
	char name[64];
	int other = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(other, 0);
	ck_assert_int_eq(grantpt(other) | unlockpt(other), 0);
	ck_assert_int_eq(ptsname_r(other, name, sizeof(name)), 0);
	int fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_eq(ioctl(fd, TIOCSWINSZ, &size), 0);
	ck_assert_int_eq(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
	close(fd);
}

HT_TEST(long_output_goes_to_the_pager)
{
	static const struct {
		const char *command, *option;
		unsigned short rows;
		bool is_paged;
	} table[] = {
		{"report", NULL, 5, true},
		{"report", "--no-pager", 5, false},
		{"report", "--json", 5, false},
		{"report", NULL, 500, false},
		{"info", NULL, 5, true},
	};
	char *path = make_trace(), *shown = tmpdir_path("shown");
	setenv("SHOWN", shown, true);
	setenv("PAGER", "cat >\"$SHOWN\"", true);
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		const char *option = table[i].option;
		char *argv[] = {
			strdup(table[i].command), path, option ? strdup(option) : NULL, NULL};
		use_terminal(table[i].rows);
		ck_no_err(commands_run(option ? 3 : 2, argv));
		ck_assert_msg((unlink(shown) == 0) == table[i].is_paged, "row %zu", i);
		free(argv[0]);
		free(argv[2]);
	}
	free(path);
	free(shown);
}

/* info reads the number of events from the end of the file, which is cut off here. */
HT_TEST(info_knows_no_number_of_events_of_a_cut_file)
{
	char *path = make_trace();
	struct stat file;
	struct bytes_out out = {0};
	ck_no_err(run(ARGS("info", path), &out));
	check_output(&out, "events       0\n");
	ck_assert_int_eq(stat(path, &file), 0);
	ck_assert_int_eq(truncate(path, file.st_size - 1), 0);
	out = (struct bytes_out){0};
	ck_no_err(run(ARGS("info", path), &out));
	check_output(&out, "events       0 or more\ndropped      0 or more\n");
	free(path);
}

HT_TEST(perf_maps_name_what_no_module_holds)
{
	char *path = make_trace(), *map = tmpdir_path("perf.map");
	FILE *file = fopen(map, "w");
	ck_assert(fputs("0 10 JS:*made a.js:1:2\n", file) >= 0 && fclose(file) == 0);
	struct bytes_out out = {0};
	ck_no_err(run(ARGS("report", "--perf-map", map, path), &out));
	check_output(&out, "    JS:*made a.js:1:2\n");
	out = (struct bytes_out){0};
	ck_no_err(run(ARGS("export", "--format", "collapsed", "--perf-map", map, path), &out));
	check_output(&out, "JS:*made a.js:1:2 100\n");
	out = (struct bytes_out){0};
	ck_no_err(run(ARGS("export", "--format", "heaptrack", "--perf-map", map, path), &out));
	check_output(&out, "JS:*made a.js:1:2\n");
	ck_err_says(run(ARGS("report", "--perf-map", path, path), NULL), HT_ERR_USAGE,
		"is no perf map");
	free(path);
	free(map);
}

HT_TEST(wrong_use_gives_one_line)
{
	static const struct {
		const char *args[7];
		const char *says;
	} wrong[] = {
		{{"report"}, "trace file is missing"},
		{{"report", "a", "b"}, "b is one too many"},
		{{"report", "--limit", "-1", "a"}, "takes a number"},
		{{"report", "--limit", "1x", "a"}, "takes a number"},
		{{"report", "--limit", "99999999999999999999", "a"}, "takes a number"},
		{{"report", "--colour", "a"}, "--colour is unknown; did you mean --color?"},
		{{"report", "--love", "a"}, "see heaptap report --help"},
		{{"report", "--jsno", "a"}, "--jsno is unknown; did you mean --json?"},
		{{"export", "--fromat=x"}, "is unknown; did you mean --format?"},
		{{"report", "a", "--limit"}, "lacks its value"},
		{{"export", "a"}, "--format is missing"},
		{{"export", "--format", "pdf", "a"}, "format pdf is unknown"},
		{{"export", "--metric", "love", "a"}, "metric love is unknown"},
		{{"export", "--format", "heaptrack", "--show-wrappers", "a"},
			"--show-wrappers is not needed"},
		{{"export", "--format", "pprof", "--metric", "peak", "a"}, "--metric is for"},
		{{"export", "--format", "pprof", "--stats", "a"}, "--stats is for heaptrack"},
		{{"export", "--format", "pprof", "a", "b"}, "takes one trace"},
		{{"export", "--format", "difffolded", "a"}, "compares two traces"},
		{{"export", "--format", "collapsed", "--metric", "lifetime", "a"}, "is a mean"},
		{{"export", "--format", "massif", "--alive-at", "+1s", "a"}, "one moment"},
		{{"symbols"}, "trace file is missing"},
		{{"symbols", "--resolve", "a"}, "-o OUT is missing"},
		{{"tree", "--by", "thread", "a"}, "--by thread is unknown"},
		{{"callers", "a"}, "function is missing"},
		{{"flame", "--json", "-o", "x", "a"}, "-o writes an SVG"},
		{{"source", "--json", "--csv", "a", "f"}, "takes --json or --csv"},
		{{"symbols", "--emit", "--fd", "x"}, "takes a number"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++)
		ck_err_says(run(wrong[i].args, NULL), HT_ERR_USAGE, wrong[i].says);
}

HT_TEST(names_a_file_that_is_no_trace)
{
	char *path = tmpdir_path("text");
	FILE *file = fopen(path, "w");
	fputs("hello", file);
	fclose(file);
	ck_err_says(run(ARGS("report", path), NULL), HT_ERR_FORMAT, path);
	ck_err_says(run(ARGS("report", "/"), NULL), HT_ERR_FORMAT, "regular file");
	ck_err_says(run(ARGS("report", "/dev/null"), NULL), HT_ERR_FORMAT, "/dev/null");
	ck_err_says(run(ARGS("report", "/none"), NULL), HT_ERR_SYS, "/none");
	free(path);
}

HT_TEST(exports_overwrite_only_with_an_option)
{
	char *trace = make_trace(), *path = tmpdir_path("out.txt");
	const char *const args[] = {
		"export", trace, "--format", "collapsed", "-o", path, NULL, NULL};
	ck_no_err(run(args, NULL));
	struct stat status;
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_int_eq(status.st_mode & 0777, 0600);
	ck_err_says(run(args, NULL), HT_ERR_USAGE, "exists; -f replaces it");
	const char *const forced[] = {
		"export", trace, "--format", "heaptrack", "-f", "-o", path, NULL};
	ck_no_err(run(forced, NULL));
	free(trace);
	free(path);
}

HT_TEST(a_failed_export_leaves_no_file)
{
	char *trace = tmpdir_path("bad"), *path = tmpdir_path("out.txt");
	fclose(fopen(trace, "w"));
	const char *const args[] = {"export", trace, "--format", "collapsed", "-o", path, NULL};
	ck_err(run(args, NULL), HT_ERR_FORMAT);
	ck_assert_int_ne(access(path, F_OK), 0);
	free(trace);
	free(path);
}

static void check_content(const char *path, const char *want)
{
	char text[16] = "";
	FILE *file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, file), 0);
	fclose(file);
	ck_assert_str_eq(text, want);
}

/* The file that -f replaces stays until the new one is complete, and no other file is left beside
 * it. */
HT_TEST(a_failed_export_keeps_what_was_there)
{
	char *trace = tmpdir_path("bad"), *path = tmpdir_path("out.txt");
	fclose(fopen(trace, "w"));
	FILE *file = fopen(path, "w");
	ck_assert(fputs("mine", file) >= 0 && fclose(file) == 0);
	char *directory = tmpdir_path("");
	unsigned before = files_count(directory);
	const char *const args[] = {
		"export", trace, "--format", "collapsed", "-f", "-o", path, NULL};
	ck_err(run(args, NULL), HT_ERR_FORMAT);
	check_content(path, "mine");
	ck_assert_uint_eq(files_count(directory), before);
	free(directory);
	free(trace);
	free(path);
}

HT_TEST(an_export_does_not_replace_its_trace)
{
	char *trace = make_trace();
	const char *const args[] = {
		"export", trace, "--format", "collapsed", "-f", "-o", trace, NULL};
	ck_err_says(run(args, NULL), HT_ERR_USAGE, "the trace itself");
	ck_no_err(run(ARGS("info", trace), NULL));
	free(trace);
}

HT_TEST(a_full_disk_is_an_error)
{
	char *trace = make_trace();
	const char *const args[] = {
		"export", trace, "--format", "collapsed", "-f", "-o", "/dev/full", NULL};
	struct ht_err *err = run(args, NULL);
	ck_assert_ptr_nonnull(err);
	ck_assert_int_eq(err->sys, ENOSPC);
	ht_err_free(err);
	ck_assert_int_eq(access("/dev/full", F_OK), 0);
	free(trace);
}

HT_TEST(emitted_symbols_are_records)
{
	struct module_here here = module_here_find("");
	struct tracebuild trace;
	tracebuild_init(&trace);
	tracebuild_start(&trace, 1, 0, 0);
	module_here_put(&here, &trace);
	uint64_t known = (uint64_t)(uintptr_t)&make_trace + 1,
		 asked = (uint64_t)(uintptr_t)&run + 1;
	tracebuild_node(&trace, 0, known);
	tracebuild_node(&trace, 0, asked);
	tracebuild_node(&trace, 1, asked); /* the same place again */
	tracebuild_symbol(&trace, MODULE_HERE_ID, known - 1 - here.bias, "known", NULL, 0);
	char number[16];
	snprintf(number, sizeof(number), "%d", tracebuild_finish(&trace));
	struct bytes_out out = {0};
	ck_no_err(run(ARGS("symbols", "--emit", "--fd", number), &out));
	struct bytes in = bytes_of(out.data, out.length);
	struct rec rec;
	ck_no_err(rec_decode(&in, &rec));
	ck_assert_uint_eq(bytes_left(&in), 0);
	ck_assert_int_eq(rec.kind, REC_SYMBOL);
	ck_assert_uint_eq(rec.symbol.module_id, MODULE_HERE_ID);
	ck_assert_uint_eq(rec.symbol.offset, asked - 1 - here.bias);
	ck_assert_uint_eq(rec.symbol.frame_count, 1);
	ck_assert_uint_eq(rec.symbol.frame[0].function.length, 3);
	ck_assert_mem_eq(rec.symbol.frame[0].function.data, "run", 3);
	bytes_out_deinit(&out);
	tracebuild_deinit(&trace);
}

HT_SUITE("analyzer/cmd")
