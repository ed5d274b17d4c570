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
#include "analyzer/ui/watch.h"

/* Refuses options that cannot be satisfied. */
static struct ht_err *check(const char *out_path)
{
	if (!page_is_built())
		return ht_err_new(HT_ERR_REFUSED, "html is not in this build: install "
						  "libjs-dygraphs and build heaptap again");
	if (strcmp(out_path, "-") == 0 && isatty(STDOUT_FILENO))
		return ht_err_new(HT_ERR_USAGE, "html: name the file to write with -o OUT");
	return NULL;
}

/* All parts of the page. */
struct html {
	const struct option_values *values;
	struct cmd_view of, old; /* old: of --diff */
	struct compare compare;
	struct page_more more;
};

static struct ht_err *answer(struct html *html, int fd)
{
	const struct option_values *values = html->values;
	const struct resolve_files files = cmd_files(values);
	struct cmd_view *of = &html->of;
	struct watch watch;
	watch_begin(&watch, stderr, fd, values->operand[0]);
	struct ht_err *err = analysis_create(fd, values->operand[0], &of->query, &of->analysis);
	watch_end(&watch);
	if (err)
		return err;
	cmd_warn_model(&of->analysis->model);
	HT_TRY(analysis_resolve(of->analysis, &files));
	return view_create(of->analysis, &of->query, false, &of->view);
}

/* Compares the view with the trace of --diff. */
static struct ht_err *compare_with(struct html *html, const char *old_path)
{
	const char *const path[] = {old_path, html->values->operand[0]};
	HT_TRY(cmd_view_open(html->values, old_path, false, &html->old));
	const struct view *const view[] = {html->old.view, html->of.view};
	HT_TRY(compare_init(&html->compare, view, HT_ARRAY_SIZE(view)));
	return page_diff_json(&html->compare, path, &html->more.diff);
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
	const char *old_path = option_text(html->values, OPTION_DIFF, NULL);
	HT_TRY(answer(html, fd));
	if (old_path)
		HT_TRY(compare_with(html, old_path));
	if (option_is_given(html->values, OPTION_EMBED_SOURCE))
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

static void close_all(struct html *html)
{
	json_decref(html->more.diff);
	json_decref(html->more.sources);
	compare_deinit(&html->compare);
	cmd_view_close(&html->old);
	cmd_view_close(&html->of);
}

struct ht_err *cmd_html(const struct option_values *values)
{
	struct html html = {.values = values};
	int fd = -1;
	struct ht_err *err = check(option_text(values, OPTION_OUTPUT, "-"));
	HT_THEN(err, cmd_query(values, &html.of.query));
	HT_THEN(err, cmd_open_trace(values->operand[0], &fd));
	HT_THEN(err, write_to(&html, fd));
	close_all(&html);
	if (fd >= 0)
		close(fd);
	return err;
}
