/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze top: a live table of what a process allocates and holds.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cmd.h"
#include "analyzer/cmd_file.h"
#include "analyzer/cmd_process.h"
#include "analyzer/page/page.h"
#include "analyzer/top/gather.h"
#include "analyzer/top/top.h"

#define NS_PER_S     1000000000ull
#define DELAY_NS     (2 * NS_PER_S)
#define DELAY_MIN_NS (NS_PER_S / 5)
#define BATCH_ROWS   20u

/* --- in processes of their own --------------------------------------------------------------- */

/* Ends the analysis at the bytes read so far, finds names, and answers the command line's query. */
static struct ht_err *open_view(
	const struct option_values *values, struct analysis *analysis, struct cmd_view *ret)
{
	struct resolve_files files = cmd_files(values);
	files.uses_cache = true;
	query_init(&ret->query);
	ret->query.shows_wrappers = option_is_given(values, OPTION_SHOW_WRAPPERS);
	HT_TRY(analysis_end(analysis));
	HT_TRY(analysis_resolve(analysis, &files));
	return view_create(analysis, &ret->query, false, &ret->view);
}

static struct ht_err *write_snapshot(void *context, struct analysis *analysis)
{
	struct cmd_view of = {0};
	HT_TRY(open_view(context, analysis, &of));
	return gather_write(stdout, of.view);
}

static struct ht_err *save(void *context, struct analysis *analysis, const char *path)
{
	static const char *const traces[] = {NULL};
	static const struct page_more more;
	struct cmd_view of = {0};
	struct cmd_file out;
	struct page_result result;
	if (!page_is_built())
		return ht_err_new(HT_ERR_REFUSED, "html is not in this build: install "
						  "libjs-dygraphs and build heaptap again");
	if (strcmp(path, "-") == 0)
		return ht_err_new(HT_ERR_USAGE, "name a file for the page");
	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return ht_err_new(HT_ERR_USAGE, "%s exists; name another file", path);
	HT_TRY(cmd_file_open(path, traces, false, &out));
	struct ht_err *err = open_view(context, analysis, &of);
	HT_THEN(err, page_write(out.file, of.view, &more, PAGE_BYTES_MAX, &result));
	return cmd_file_close(&out, err);
}

/* --- the command ----------------------------------------------------------------------------- */

static struct ht_err *check(const struct option_values *values)
{
	const bool is_batch = option_is_given(values, OPTION_BATCH);
	if (!cmd_process_is_given(values))
		return ht_err_new(HT_ERR_USAGE, "top: -p PID is missing, or --name NAME");
	if (!is_batch && option_is_given(values, OPTION_TABLES))
		return ht_err_new(HT_ERR_USAGE, "top: -n counts the tables of -b");
	if (!is_batch && option_is_given(values, OPTION_JSON_LINES))
		return ht_err_new(HT_ERR_USAGE, "top: --json is for -b");
	if (option_number(values, OPTION_DELAY, DELAY_NS) < DELAY_MIN_NS)
		return ht_err_new(HT_ERR_USAGE, "top: -d is 0.2 s or more");
	return NULL;
}

struct ht_err *cmd_top(const struct option_values *values)
{
	pid_t pid;
	HT_TRY(check(values));
	HT_TRY(cmd_process_find(values, &pid));
	const struct top_config config = {
		.pid = pid,
		.delay_ns = option_number(values, OPTION_DELAY, DELAY_NS),
		.tables = option_number(values, OPTION_TABLES, 0),
		.rows = option_number(values, OPTION_ROWS, BATCH_ROWS),
		.is_batch = option_is_given(values, OPTION_BATCH),
		.is_json = option_is_given(values, OPTION_JSON_LINES),
		.is_wide = option_is_given(values, OPTION_WIDE),
		.color = (enum terminal_color)option_number(
			values, OPTION_COLOR, TERMINAL_COLOR_AUTO),
		.options = {.sort = (enum listing_sort)option_number(
				    values, OPTION_ORDER, LISTING_GROWTH),
			.filter = option_text(values, OPTION_FILTER, NULL),
			.is_by_function = option_is_given(values, OPTION_BOTTOM_UP)},
		.tasks = {write_snapshot, save, (void *)(uintptr_t)values},
	};
	return top_run(&config);
}
