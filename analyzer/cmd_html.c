/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze html: a trace as one HTML file.
 */
#include "analyzer/cmd.h"
#include "analyzer/cmd_file.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/page/page.h"
#include "analyzer/ui/watch.h"

/* What options ask for and cannot have. */
static struct ht_err *check(const char *out_path)
{
	if (!page_is_built())
		return ht_err_new(HT_ERR_REFUSED, "html is not in this build: install "
						  "libjs-dygraphs and build heaptap again");
	if (strcmp(out_path, "-") == 0 && isatty(STDOUT_FILENO))
		return ht_err_new(HT_ERR_USAGE, "html: name the file to write with -o OUT");
	return NULL;
}

static struct ht_err *answer(const struct option_values *values, int fd, struct cmd_view *ret)
{
	const struct resolve_files files = cmd_files(values);
	struct watch watch;
	watch_begin(&watch, stderr, fd, values->operand[0]);
	struct ht_err *err = analysis_create(fd, values->operand[0], &ret->query, &ret->analysis);
	watch_end(&watch);
	if (err)
		return err;
	cmd_warn_model(&ret->analysis->model);
	err = analysis_resolve(ret->analysis, &files);
	return err ? err : view_create(ret->analysis, &ret->query, false, &ret->view);
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

static struct ht_err *write_to(const struct option_values *values, int fd, struct cmd_view *view)
{
	const char *const traces[] = {values->operand[0], NULL};
	struct cmd_file out;
	struct page_result result = {0};
	struct ht_err *err = cmd_file_open(option_text(values, OPTION_OUTPUT, "-"), traces,
		option_is_given(values, OPTION_FORCE), &out);
	if (err)
		return err;
	err = answer(values, fd, view);
	if (!err)
		err = page_write(out.file, view->view, PAGE_BYTES_MAX, &result);
	err = cmd_file_close(&out, err);
	if (!err)
		print_folded(&result);
	return err;
}

struct ht_err *cmd_html(const struct option_values *values)
{
	struct cmd_view view = {0};
	int fd = -1;
	struct ht_err *err = check(option_text(values, OPTION_OUTPUT, "-"));
	if (!err)
		err = cmd_query(values, &view.query);
	if (!err)
		err = cmd_open_trace(values->operand[0], &fd);
	if (!err)
		err = write_to(values, fd, &view);
	cmd_view_close(&view);
	if (fd >= 0)
		close(fd);
	return err;
}
