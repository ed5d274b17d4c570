/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze tree: the call tree, from the outermost functions down or from the allocating
 * functions up.
 */
#include "analyzer/cmd_calls.h"
#include "analyzer/ui/tree_text.h"

struct ht_err *cmd_tree(const struct option_values *values)
{
	return cmd_calls_tree(values, option_is_given(values, OPTION_BOTTOM_UP), tree_text_write,
		"the call tree");
}
