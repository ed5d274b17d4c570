/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands and their shared code: opening traces and outputs, files with symbols, and the
 * warning that only a part of a trace was read.
 */
#pragma once

#include <stdio.h>

#include "analyzer/cli/option.h"
#include "analyzer/model/model.h"
#include "analyzer/query/query.h"
#include "analyzer/symbols/resolve.h"
#include "analyzer/symbols/source.h"
#include "analyzer/ui/pager.h"
#include "analyzer/ui/text.h"
#include "analyzer/views/view.h"
#include "format/err.h"

/* The commands (commands.c has their names). Each takes a parsed command line, writes its data to
 * standard output or to the file of -o, and returns its error, which main.c prints. */
struct ht_err *cmd_report(const struct option_values *values);
/* As cmd_report with --json, but prints only the members that `member` names, in the order of the
 * report. A NULL ends `member`. */
HT_MUST_CHECK
struct ht_err *cmd_report_members(const struct option_values *values, const char *const *member);
struct ht_err *cmd_diff(const struct option_values *values);
struct ht_err *cmd_trend(const struct option_values *values);
struct ht_err *cmd_check(const struct option_values *values);
struct ht_err *cmd_tree(const struct option_values *values);
struct ht_err *cmd_callers(const struct option_values *values);
struct ht_err *cmd_flame(const struct option_values *values);
struct ht_err *cmd_source(const struct option_values *values);
struct ht_err *cmd_export(const struct option_values *values);
struct ht_err *cmd_symbols(const struct option_values *values);
struct ht_err *cmd_anonymize(const struct option_values *values);
struct ht_err *cmd_html(const struct option_values *values);
struct ht_err *cmd_serve(const struct option_values *values);
struct ht_err *cmd_top(const struct option_values *values);
struct ht_err *cmd_push(const struct option_values *values);
struct ht_err *cmd_info(const struct option_values *values);
struct ht_err *cmd_dump(const struct option_values *values);
struct ht_err *cmd_version(const struct option_values *values);
struct ht_err *cmd_man(const struct option_values *values);
struct ht_err *cmd_completion(const struct option_values *values);

/* Opens a trace for reading: a regular file, or "-" for standard input. The caller closes `*ret`.
 * HT_ERR_SYS: it cannot be opened; HT_ERR_FORMAT: it is no regular file. */
HT_MUST_CHECK
struct ht_err *cmd_open_trace(const char *path, int *ret);
/* Reads the trace on `fd`, opened by cmd_open_trace, and names its functions; warns if only a part
 * was readable, unless the output shows that (`is_shown`). `query` NULL: all blocks. If cmd_hold
 * has the analysis of `path`, returns that one. Call analysis_destroy also after an error. */
HT_MUST_CHECK
struct ht_err *cmd_analyse(const struct option_values *values, int fd, const char *path,
	const struct query *query, bool is_shown, struct analysis **ret);
#define CMD_HELD_MAX 64u
/* Makes later commands of this process reuse the open trace of `path`: the first cmd_analyse whose
 * query filters no blocks returns `analysis`, whose names are known, and passes its ownership on.
 * Borrows `path` and `fd`. Ignores traces beyond CMD_HELD_MAX. */
void cmd_hold(const char *path, int fd, struct analysis *analysis);
/* A duplicate of the descriptor that cmd_hold has for `path`, which the caller closes. Moves their
 * common offset to the beginning of the file. -1: cmd_hold has no such trace, or an error. */
int cmd_held_open(const char *path);
/* The files that --sysroot, --debug-dir and --perf-map name. */
struct resolve_files cmd_files(const struct option_values *values);
/* The places where source files are searched, from --source-dir and --sysroot. */
struct source_places cmd_source_places(const struct option_values *values);
/* The query of the options that say which allocations count (OPTIONS_QUERY) and of --show-wrappers.
 * --class, --metric, --sort, --limit are the command's own. Reads the files of --suppressions:
 * lines "leak:PATTERN", "#" for comments. Words point into argv or query->owned; call query_deinit
 * also after an error. */
HT_MUST_CHECK
struct ht_err *cmd_query(const struct option_values *values, struct query *ret);
/* A trace, read and named, and the answer to the query of a command line. */
struct cmd_view {
	struct query query;
	struct analysis *analysis;
	struct view *view;
};
/* Reads `path` and answers cmd_query's query. Warns if only a part of the trace was read, unless
 * the output shows it (`is_shown`). Call cmd_view_close also after an error. */
HT_MUST_CHECK
struct ht_err *cmd_view_open(
	const struct option_values *values, const char *path, bool is_shown, struct cmd_view *ret);
/* The part of cmd_view_open after cmd_query and cmd_open_trace, which made view->query and `fd`. */
HT_MUST_CHECK
struct ht_err *cmd_view_answer(const struct option_values *values, int fd, const char *path,
	bool is_shown, struct cmd_view *view);
void cmd_view_close(struct cmd_view *view);
/* Sets more->diff, which the caller releases: the comparison of `view` with the trace of --diff.
 * Without that option it does nothing. */
struct page_more;
HT_MUST_CHECK
struct ht_err *cmd_page_diff(
	const struct option_values *values, const struct view *view, struct page_more *more);

enum cmd_format { CMD_TEXT, CMD_JSON, CMD_CSV };
/* The format that --json and --csv choose; a usage error if both are given. */
HT_MUST_CHECK
struct ht_err *cmd_format_of(const struct option_values *values, enum cmd_format *ret);

/* The text output of a command. */
struct cmd_output {
	struct pager pager;
	struct text text; /* write to this */
};
/* Begins the text for standard output, as --color, --no-pager and --wide say. cmd_output_close ends
 * it. */
HT_MUST_CHECK
struct ht_err *cmd_output_open(const struct option_values *values, struct cmd_output *ret);
/* Shows the text in a pager if it is longer than the screen. HT_ERR_SYS: it cannot be written;
 * `what` names the text in the message. */
HT_MUST_CHECK
struct ht_err *cmd_output_close(struct cmd_output *output, const char *what);

/* Call before any output about a trace, with how its reading ended. If only a part was read, prints
 * a warning to standard error, unless the output shows it (`is_shown`), and makes cmd_exit_code
 * return 7. */
void cmd_warn_ending(const struct model_ending *ending, bool is_shown);
void cmd_warn_model(const struct model *model);
/* As cmd_warn_ending, for a command that reads without a model. `has_end`: an END record was read.
 * HT_ERR_FORMAT if no record was read. */
HT_MUST_CHECK
struct ht_err *cmd_warn_reader(
	const struct trace_reader *reader, enum trace_end how_ended, bool has_end);
/* As cmd_warn_ending, for a command that prints while it reads: reads the trace on `fd` to its end
 * and restores the position; `*ret_bytes`: number of bytes read. For a pipe it does nothing and
 * `*ret_bytes` is 0. HT_ERR_FORMAT if no record can be read. */
HT_MUST_CHECK
struct ht_err *cmd_check_ending(int fd, const char *path, uint64_t *ret_bytes);
/* Notes that a threshold of check is exceeded. */
void cmd_note_exceeded(void);
/* The exit status of commands that returned no error: 7 if only a part of a trace was read, else 8
 * if a threshold is exceeded, else 0. */
int cmd_exit_code(void);
/* Flushes `out`. HT_ERR_SYS if this or an earlier write failed; `name` names the output in the
 * message ("-": standard output). */
HT_MUST_CHECK
struct ht_err *cmd_flush(FILE *out, const char *name);
