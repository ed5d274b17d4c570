/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze html: a trace as one HTML file.
 */
#include "analyzer/cmd.h"
#include "analyzer/cmd_file.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/page/diff.h"
#include "analyzer/page/page.h"
#include "analyzer/page/sources.h"

/* Refuses to write a page to a terminal, or with a build that has no page. */
static struct ht_err *check(const char *out_path)
{
	if (!page_is_built())
		return ht_err_new(HT_ERR_REFUSED, "html is not in this build: install "
						  "libjs-dygraphs and build heaptap again");
	if (strcmp(out_path, "-") == 0 && isatty(STDOUT_FILENO))
		return ht_err_new(HT_ERR_USAGE, "html: name the file to write with -o OUT");
	return NULL;
}

struct html {
	const struct option_values *values;
	struct cmd_view of;
	struct page_more more;
};

struct ht_err *cmd_page_diff(
	const struct option_values *values, const struct view *view, struct page_more *more)
{
	const char *const path[] = {option_text(values, OPTION_DIFF, NULL), values->operand[0]};
	struct compare compare = {0};
	struct cmd_view old;
	if (!path[0])
		return NULL;
	struct ht_err *err = cmd_view_open(values, path[0], false, &old);
	const struct view *const both[] = {old.view, view};
	HT_THEN(err, compare_init(&compare, both, HT_ARRAY_SIZE(both)));
	HT_THEN(err, page_diff_json(&compare, path, &more->diff));
	compare_deinit(&compare);
	cmd_view_close(&old);
	return err;
}

static void print_sources(const struct page_sources_result *result)
{
	if (!result->missing && !result->left)
		return;
	fprintf(stderr, "heaptap: source files in the page: %u", result->files);
	if (result->missing)
		fprintf(stderr, "; not found: %u (--source-dir DIR names where they are)",
			result->missing);
	if (result->left)
		fprintf(stderr, "; left out, since the text is limited to %u KiB: %u",
			PAGE_SOURCES_BYTES_MAX >> 10, result->left);
	fputc('\n', stderr);
}

static struct ht_err *embed_source(struct html *html)
{
	const struct source_places places = cmd_source_places(html->values);
	struct page_sources_result result;
	HT_TRY(page_sources_json(
		html->of.view, &places, PAGE_SOURCES_BYTES_MAX, &html->more.sources, &result));
	print_sources(&result);
	return NULL;
}

static struct ht_err *make(struct html *html, int fd, FILE *out, struct page_result *ret)
{
	const struct option_values *values = html->values;
	HT_TRY(cmd_view_answer(values, fd, values->operand[0], false, &html->of));
	HT_TRY(cmd_page_diff(values, html->of.view, &html->more));
	if (option_is_given(values, OPTION_EMBED_SOURCE))
		HT_TRY(embed_source(html));
	return page_write(out, html->of.view, &html->more, PAGE_BYTES_MAX, ret);
}

static void print_folded(const struct page_result *result)
{
	if (result->folded)
		fprintf(stderr,
			"heaptap: %" PRIu32 " of %" PRIu32
			" call chains' frames allocated less than %" PRIu64
			" bytes each; they are counted in their callers\n",
			result->folded, result->folded + result->kept, result->least_bytes);
}

static struct ht_err *write_to(struct html *html, int fd)
{
	const struct option_values *values = html->values;
	const char *const traces[] = {
		values->operand[0], option_text(values, OPTION_DIFF, NULL), NULL};
	struct cmd_file out;
	struct page_result result = {0};
	HT_TRY(cmd_file_open(option_text(values, OPTION_OUTPUT, "-"), traces,
		option_is_given(values, OPTION_FORCE), &out));
	struct ht_err *err = make(html, fd, out.file, &result);
	HT_TRY(cmd_file_close(&out, err));
	print_folded(&result);
	return NULL;
}

struct ht_err *cmd_html(const struct option_values *values)
{
	struct html html = {.values = values};
	int fd = -1;
	struct ht_err *err = check(option_text(values, OPTION_OUTPUT, "-"));
	HT_THEN(err, cmd_query(values, &html.of.query));
	HT_THEN(err, cmd_open_trace(values->operand[0], &fd));
	HT_THEN(err, write_to(&html, fd));
	json_decref(html.more.diff);
	json_decref(html.more.sources);
	cmd_view_close(&html.of);
	if (fd >= 0)
		close(fd);
	return err;
}
