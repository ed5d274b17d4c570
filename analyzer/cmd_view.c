/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "analyzer/cmd.h"

struct ht_err *cmd_view_answer(const struct option_values *values, int fd, const char *path,
	bool is_shown, struct cmd_view *view)
{
	HT_TRY(cmd_analyse(values, fd, path, &view->query, is_shown, &view->analysis));
	return view_create(
		view->analysis, &view->query, option_is_given(values, OPTION_UTC), &view->view);
}

struct ht_err *cmd_view_open(
	const struct option_values *values, const char *path, bool is_shown, struct cmd_view *ret)
{
	int fd = -1;
	*ret = (struct cmd_view){0};
	struct ht_err *err = cmd_query(values, &ret->query);
	HT_THEN(err, cmd_open_trace(path, &fd));
	HT_THEN(err, cmd_view_answer(values, fd, path, is_shown, ret));
	if (fd >= 0)
		close(fd);
	return err;
}

void cmd_view_close(struct cmd_view *view)
{
	view_destroy(view->view);
	analysis_destroy(view->analysis);
	query_deinit(&view->query);
	*view = (struct cmd_view){0};
}
