/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that tree, callers, flame and source share: opens a trace, its view, and its call tree.
 */
#pragma once

#include "analyzer/cmd.h"
#include "analyzer/ui/calls_text.h"
#include "analyzer/views/function.h"

struct cmd_calls {
	struct cmd_view of;
	struct calls calls;
	bool *has_row; /* by row, whether --class keeps it; NULL: all rows */
};

/* Reads the trace and builds the tree that the options ask for, by function unless --by says
 * otherwise. Call cmd_calls_close also after an error. */
HT_MUST_CHECK
struct ht_err *cmd_calls_open(
	const struct option_values *values, bool is_bottom_up, struct cmd_calls *ret);
void cmd_calls_close(struct cmd_calls *opened);

/* Makes the page that the options describe; borrows `opened` and `text`, which may be NULL for an
 * output without text. */
struct calls_text cmd_calls_page(const struct option_values *values, const struct cmd_calls *opened,
	const struct text *text);
/* Opens the trace and writes its tree to standard output: as JSON or CSV, or as text by `write`.
 * `what` names the text in the message of an error. */
HT_MUST_CHECK
struct ht_err *cmd_calls_tree(const struct option_values *values, bool is_bottom_up,
	struct ht_err *(*write)(const struct calls_text *page), const char *what);
/* Writes one function to standard output, as text to page->text, which is NULL for other formats;
 * everything is borrowed. */
typedef struct ht_err *cmd_calls_writer(const struct option_values *values, enum cmd_format format,
	const struct calls_text *page, const struct function_matches *matches,
	const struct function *function);
/* Opens the trace and writes the function that the second operand names; `what` as above. If
 * several functions match, writes their list (JSON: with `schema`) and returns a usage error that
 * says how to choose. */
HT_MUST_CHECK
struct ht_err *cmd_calls_run(const struct option_values *values, const char *schema,
	cmd_calls_writer *write, const char *what);
