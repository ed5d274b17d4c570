/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "analyzer/cmd.h"
#include "analyzer/ui/watch.h"

static struct ht_err *answer(
	const struct option_values *values, bool is_shown, struct cmd_view *ret)
{
	const struct resolve_files files = cmd_files(values);
	const struct model_ending ending = model_ending(&ret->analysis->model);
	cmd_warn_ending(&ending, is_shown);
	struct ht_err *err = analysis_resolve(ret->analysis, &files);
	if (err)
		return err;
	return view_create(
		ret->analysis, &ret->query, option_is_given(values, OPTION_UTC), &ret->view);
}

/* Closes `fd`. */
static struct ht_err *read_trace(int fd, const char *path, struct cmd_view *ret)
{
	struct watch watch;
	watch_begin(&watch, stderr, fd, path);
	struct ht_err *err = analysis_create(fd, path, &ret->query, &ret->analysis);
	watch_end(&watch);
	close(fd);
	return err;
}

struct ht_err *cmd_view_open(
	const struct option_values *values, const char *path, bool is_shown, struct cmd_view *ret)
{
	int fd = -1;
	*ret = (struct cmd_view){0};
	struct ht_err *err = cmd_query(values, &ret->query);
	if (!err)
		err = cmd_open_trace(path, &fd);
	if (!err)
		err = read_trace(fd, path, ret);
	return err ? err : answer(values, is_shown, ret);
}

void cmd_view_close(struct cmd_view *view)
{
	view_destroy(view->view);
	analysis_destroy(view->analysis);
	query_deinit(&view->query);
	*view = (struct cmd_view){0};
}

static bool has_exceeded;

void cmd_note_exceeded(void)
{
	has_exceeded = true;
}

bool cmd_has_exceeded(void)
{
	return has_exceeded;
}
