/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze flame: a flame graph, as a file for browsers or as text.
 */
#include "analyzer/cmd_calls.h"
#include "analyzer/cmd_file.h"
#include "analyzer/ui/flame_svg.h"
#include "analyzer/ui/flame_text.h"

/* Least share of a box: 0.6 pixels of an unzoomed graph, which is 1180 wide. */
#define LEAST_SHARE 5e-4

static struct ht_err *write_svg(
	const struct option_values *values, const struct cmd_calls *opened, FILE *out)
{
	const struct calls_text page = cmd_calls_page(values, opened, NULL);
	struct flame flame;
	HT_TRY(flame_init(&flame, &opened->calls, LEAST_SHARE, page.limit));
	struct ht_err *err =
		flame_svg_write(out, &page, &flame, option_is_given(values, OPTION_TOP_DOWN));
	flame_deinit(&flame);
	return err;
}

static struct ht_err *write_text(const struct calls_text *page)
{
	struct flame flame = {0};
	struct ht_err *err = flame_init(&flame, page->calls, LEAST_SHARE, page->limit);
	if (!err)
		flame_text_write(page, &flame);
	flame_deinit(&flame);
	return err;
}

/* Opens the file first, so that an unwritable file fails before the work. */
static struct ht_err *write_file(const struct option_values *values, const char *path)
{
	struct cmd_file file;
	struct cmd_calls opened;
	const char *const traces[] = {values->operand[0], NULL};
	HT_TRY(cmd_file_open(path, traces, option_is_given(values, OPTION_FORCE), &file));
	struct ht_err *err = cmd_calls_open(values, false, &opened);
	HT_THEN(err, write_svg(values, &opened, file.file));
	cmd_calls_close(&opened);
	return cmd_file_close(&file, err);
}

struct ht_err *cmd_flame(const struct option_values *values)
{
	const char *path = option_text(values, OPTION_SVG, NULL);
	enum cmd_format format;
	HT_TRY(cmd_format_of(values, &format));
	if (path && format != CMD_TEXT)
		return ht_err_new(HT_ERR_USAGE,
			"flame: -o writes an SVG; --json and --csv go to standard output");
	return path ? write_file(values, path)
		    : cmd_calls_tree(values, false, write_text, "the flame graph");
}
