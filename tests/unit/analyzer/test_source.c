/* SPDX-License-Identifier: Apache-2.0
 *
 * Source files: where they are looked for, what is never opened, and the page with values beside
 * lines.
 */
#include "analyzer/symbols/source.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "analyzer/ui/source_text.h"
#include "tests/support/files.h"
#include "tests/unit/analyzer/stage.h"

static char *directory;

static char *put(const char *name, const char *content)
{
	char *path = files_path(directory, name);
	for (char *slash = strchr(path + strlen(directory) + 1, '/'); slash;
		slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	files_write(path, content);
	return path;
}

static struct source read_at(const char *dir, const char *sysroot, const char *path, char why[])
{
	const struct source_places places = {
		.sysroot = sysroot, .dir = {dir}, .dir_count = dir != NULL};
	struct source source;
	ck_no_err(source_read(&places, path, &source, why));
	return source;
}

HT_TEST(a_file_is_found_by_its_path_and_by_its_end)
{
	char why[SOURCE_WHY_BYTES];
	directory = files_directory();
	char *path = put("here/a.c", "one\ntwo\n\nlast");
	struct source source = read_at(NULL, "", path, why);
	ck_assert_str_eq(why, "");
	ck_assert_uint_eq(source.line_count, 4);
	ck_assert_str_eq(source.line[1], "two");
	ck_assert_str_eq(source.line[3], "last");
	source_deinit(&source);
	source = read_at(NULL, directory, "/here/a.c", why);
	ck_assert_uint_eq(source.line_count, 4);
	source_deinit(&source);
	source = read_at(directory, "", "/build/elsewhere/here/a.c", why);
	ck_assert_str_eq(source.path, path);
	source_deinit(&source);
	source = read_at(directory, "", "here/a.c", why);
	ck_assert_uint_eq(source.line_count, 4);
	source_deinit(&source);
	free(path);
}

HT_TEST(no_path_leaves_the_directory)
{
	char why[SOURCE_WHY_BYTES];
	directory = files_directory();
	char *outside = put("secret", "secret\n"), *dir = put("in/side", "x\n");
	*strrchr(dir, '/') = '\0';
	static const char *const path[] = {"../secret", "a/../../secret", "x/..", ".."};
	for (size_t i = 0; i < HT_ARRAY_SIZE(path); i++) {
		struct source source = read_at(dir, "", path[i], why);
		ck_assert_msg(!source.data, "%s", path[i]);
		ck_assert_ptr_nonnull(strstr(why, "--source-dir"));
	}
	free(outside);
	free(dir);
}

HT_TEST(only_regular_files_are_read)
{
	char why[SOURCE_WHY_BYTES];
	directory = files_directory();
	char *fifo = files_path(directory, "fifo");
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	const char *const path[] = {fifo, directory, "/dev/zero", "/nowhere/a.c", "relative.c"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(path); i++) {
		struct source source = read_at(NULL, "", path[i], why);
		ck_assert_msg(!source.data && why[0], "%s", path[i]);
	}
	free(fifo);
}

/* --- the page ----------------------------------------------------------------------------------
 */

/* Returns the page of "grow", whose line of `file` allocates one block; malloc'd. `rate`: the trace
 * is a sample of one allocation in so many bytes; 0: it has each. */
static char *page_of_sample(const char *file, uint64_t line, const char *dir, uint64_t rate)
{
	static struct stage stage;
	char *printed;
	size_t length;
	struct calls calls;
	struct function_matches matches;
	struct function callers;
	const struct calls_options options = {.grouping = GROUPING_FUNCTION,
		.metric = METRIC_OUTSTANDING,
		.sort = METRIC_OUTSTANDING};
	const struct source_places places = {.sysroot = "", .dir = {dir}, .dir_count = 1};
	stage_begin_sample(&stage, rate);
	const uint64_t pc = STAGE_LO + 0x5000;
	stage_name(&stage, 1, pc, "grow", NULL, file, line);
	stage_alloc(&stage, 0, rate ? rate - 1 : 2048, tracebuild_node(&stage.scene.trace, 0, pc));
	struct analysis *analysis = scene_analyze(&stage.scene);
	struct view *view = scene_view(analysis, NULL);
	ck_no_err(calls_init(&calls, view, &options));
	ck_no_err(function_find(&calls, "grow", &matches));
	ck_no_err(function_init(&callers, &calls, &matches));
	const struct text text = {.out = open_memstream(&printed, &length), .columns = 80};
	const struct calls_text page = {.text = &text, .calls = &calls};
	ck_no_err(source_text_write(&page, &matches, &callers, &places));
	fclose(text.out);
	function_deinit(&callers);
	function_matches_deinit(&matches);
	calls_deinit(&calls);
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
	return printed;
}

static char *page_of(const char *file, uint64_t line, const char *dir)
{
	return page_of_sample(file, line, dir, 0);
}

HT_TEST(values_stand_beside_lines_with_three_around)
{
	directory = files_directory();
	free(put("b.c", "1\n2\n3\n4\n\tgrow\x1b[31m;\n6\n7\n8\n9\n"));
	char *got = page_of("/src/b.c", 5, directory);
	ck_assert_ptr_nonnull(strstr(got, "     total        own  line\n"
					  "                          2  2\n"
					  "                          3  3\n"
					  "                          4  4\n"
					  "   2.0 KiB    2.0 KiB     5      grow[31m;\n"
					  "                          6  6\n"
					  "                          7  7\n"
					  "                          8  8\n"));
	ck_assert_ptr_null(strstr(got, "  9\n"));
	/* The trace of this test is dated 1970. */
	ck_assert_ptr_nonnull(strstr(got, "the file changed after the recording began"));
	free(got);
}

HT_TEST(another_version_of_a_file_is_noted)
{
	directory = files_directory();
	free(put("b.c", "1\n2\n"));
	char *got = page_of("/src/b.c", 4000000000, directory);
	ck_assert_ptr_nonnull(strstr(
		got, "the file has 2 lines, the trace names line 4000000000: it is another"));
	ck_assert_ptr_nonnull(strstr(got, "2.0 KiB 4000000000"));
	free(got);
}

HT_TEST(without_a_file_there_are_line_numbers)
{
	directory = files_directory();
	char *got = page_of("/src/none.c", 7, directory);
	ck_assert_ptr_nonnull(strstr(got, "cannot open /src/none.c"));
	ck_assert_ptr_nonnull(strstr(got, "   2.0 KiB    2.0 KiB     7"));
	free(got);
	got = page_of(NULL, 0, directory);
	ck_assert_ptr_nonnull(strstr(got, "no debug information"));
	free(got);
}

/* A block of 4095 bytes counts for 6478 bytes, with a bound of 10,146 (test_compare.c). */
HT_TEST(lines_of_a_sample_have_bounds)
{
	directory = files_directory();
	free(put("b.c", "1\n2\n3\n4\n\tgrow;\n6\n7\n8\n9\n10\n"));
	char *got = page_of_sample("/src/b.c", 5, directory, 4096);
	ck_assert_ptr_nonnull(strstr(got, "     total    bound        own  line\n"
					  "                                   2  2\n"
					  "                                   3  3\n"
					  "                                   4  4\n"
					  "   6.3 KiB  +-157 %    6.3 KiB     5      grow;\n"
					  "                                   6  6\n"));
	free(got);
	got = page_of("/src/b.c", 5, directory);
	ck_assert_ptr_null(strstr(got, "+-"));
	free(got);
}

HT_SUITE("analyzer/source")
