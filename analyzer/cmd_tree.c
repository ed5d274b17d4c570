/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze tree: the call tree, from the outermost functions down or from the allocating
 * functions up.
 */
#include "analyzer/cmd_calls.h"
#include "analyzer/ui/tree_text.h"

static struct ht_err *write_text(const struct option_values *values, const struct cmd_calls *opened)
{
	struct cmd_output output;
	HT_TRY(cmd_output_open(values, &output));
	const struct calls_text page = cmd_calls_page(values, opened, &output.text);
	struct ht_err *err = tree_text_write(&page);
	return ht_err_first(err, cmd_output_close(&output, "the call tree"));
}

struct ht_err *cmd_tree(const struct option_values *values)
{
	return cmd_calls_tree(values, option_is_given(values, OPTION_BOTTOM_UP), write_text);
}
