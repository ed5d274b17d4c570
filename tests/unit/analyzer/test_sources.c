/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of source files in a page: the lines around those with figures, up to a bound.
 */
#include "analyzer/page/sources.h"
#include "tests/support/files.h"
#include "tests/unit/analyzer/scene.h"

#include <stdlib.h>
#include <string.h>

#define FILES	   300u
#define LINES	   20u
#define LINE_BYTES 400u /* with its line feed */
#define AT	   10u	/* the line with figures */
#define SHOWN	   13u	/* lines that the page shows: line AT and those around it */

static void write_file(const char *directory, uint32_t number)
{
	char name[32], *text = malloc(LINES * LINE_BYTES + 1);
	memset(text, 'x', LINES * LINE_BYTES);
	for (uint32_t i = 1; i <= LINES; i++)
		text[i * LINE_BYTES - 1] = '\n';
	text[LINES * LINE_BYTES] = '\0';
	snprintf(name, sizeof(name), "f%03u.c", number);
	char *path = files_path(directory, name);
	files_write(path, text);
	free(path);
	free(text);
}

/* Makes a site for each file, of which the first allocates most. */
static void build(struct scene *scene, const char *directory, uint32_t files)
{
	scene_init(scene);
	tracebuild_module(
		&scene->trace, 1, "/usr/bin/target", "12345678901234567890", 0x400000, 0x800000);
	tracebuild_thread(&scene->trace, SCENE_TID(0), "worker");
	for (uint32_t i = 0; i < files; i++) {
		char name[32], file[4200];
		snprintf(name, sizeof(name), "function_%u", i);
		snprintf(file, sizeof(file), "%s/f%03u.c", directory, i);
		const uint32_t node = tracebuild_node(&scene->trace, 0, 0x401000 + i * 64);
		tracebuild_symbol(&scene->trace, 1, 0xfff + i * 64, name, file, AT);
		scene_malloc(scene, 0, 0x10000 + i * 0x1000, 10 * (files - i), node);
	}
}

static size_t text_bytes(const json_t *sources)
{
	size_t bytes = 0, i, k;
	const json_t *file, *line;
	json_array_foreach(sources, i, file) json_array_foreach(json_object_get(file, "lines"), k,
		line) bytes += json_string_length(json_array_get(line, 1)) + 1;
	return bytes;
}

static json_t *sources_of(uint32_t files, const char *directory, struct page_sources_result *ret)
{
	const struct source_places places = {.sysroot = ""};
	struct scene scene;
	json_t *json;
	build(&scene, directory, files);
	struct analysis *analysis = scene_analyze(&scene);
	struct view *view = scene_view(analysis, NULL);
	ck_no_err(page_sources_json(view, &places, PAGE_SOURCES_BYTES_MAX, &json, ret));
	view_destroy(view);
	analysis_destroy(analysis);
	scene_deinit(&scene);
	return json;
}

HT_TEST(the_lines_around_figures_are_there)
{
	char *directory = files_directory();
	struct page_sources_result result;
	write_file(directory, 0);
	json_t *json = sources_of(2, directory, &result);
	ck_assert_uint_eq(json_array_size(json), 2);
	ck_assert_uint_eq(result.files, 1);
	ck_assert_uint_eq(result.missing, 1);
	ck_assert_uint_eq(result.left, 0);
	const json_t *lines = json_object_get(json_array_get(json, 0), "lines");
	ck_assert_uint_eq(json_array_size(lines), SHOWN);
	ck_assert_int_eq(json_integer_value(json_array_get(json_array_get(lines, 0), 0)), AT - 6);
	ck_assert_uint_eq(text_bytes(json), SHOWN * LINE_BYTES);
	json_decref(json);
	free(directory);
}

HT_TEST(all_text_is_at_most_a_mebibyte)
{
	char *directory = files_directory();
	struct page_sources_result result;
	for (uint32_t i = 0; i < FILES; i++)
		write_file(directory, i);
	json_t *json = sources_of(FILES, directory, &result);
	const size_t bytes = text_bytes(json), most = 1u << 20;
	ck_assert_uint_lt((size_t)FILES * SHOWN * LINE_BYTES, 2 * most);
	ck_assert_uint_gt(bytes, most - LINE_BYTES);
	ck_assert_uint_le(bytes, most);
	ck_assert_uint_eq(result.files + result.left, FILES);
	ck_assert_uint_eq(result.files, json_array_size(json));
	/* The files that allocated most are there. */
	const char *first = json_string_value(json_object_get(json_array_get(json, 0), "path"));
	ck_assert_ptr_nonnull(strstr(first, "/f000.c"));
	json_decref(json);
	free(directory);
}

HT_SUITE("analyzer/sources")
