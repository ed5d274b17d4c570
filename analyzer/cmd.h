/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands, and what they share: opening traces and outputs, numbers on the command line,
 * the warning that a trace was read in part.
 */
#pragma once

#include <stdio.h>

#include "analyzer/model/model.h"
#include "analyzer/symbols/resolve.h"
#include "format/err.h"

/* Each takes argv from its own name on. Data goes to stdout, errors back to main.c. */
struct cmd {
	const char *name;
	const char *synopsis; /* its arguments */
	const char *summary;  /* one line */
	struct ht_err *(*run)(int argc, char **argv);
};

struct ht_err *cmd_report(int argc, char **argv);
struct ht_err *cmd_export(int argc, char **argv);
struct ht_err *cmd_symbols(int argc, char **argv);
struct ht_err *cmd_info(int argc, char **argv);
struct ht_err *cmd_dump(int argc, char **argv);

/* Opens a trace for reading: a regular file, or "-" for standard input. */
HT_MUST_CHECK
struct ht_err *cmd_open_trace(const char *path, int *ret);
/* The one operand that is left, or a usage error naming what is missing or too much. */
HT_MUST_CHECK
struct ht_err *cmd_one_operand(int argc, char **argv, const char *what, const char **ret);
/* Opens the one trace that is named, for a command without options. The caller closes `*ret_fd`. */
HT_MUST_CHECK
struct ht_err *cmd_only_trace(int argc, char **argv, const char **ret_path, int *ret_fd);
/* What --sysroot, --debug-dir and --perf-map say: the entries for a list of options, and what takes
 * their value; false for another option. */
#define CMD_FILE_OPTIONS                                                                           \
	{"sysroot", required_argument, NULL, CMD_SYSROOT},                                         \
		{"debug-dir", required_argument, NULL, CMD_DEBUG_DIR},                             \
	{                                                                                          \
		"perf-map", required_argument, NULL, CMD_PERF_MAP                                  \
	}
enum { CMD_SYSROOT = 0x100, CMD_DEBUG_DIR, CMD_PERF_MAP };
bool cmd_file_option(
	int option, const char *value, struct resolve_files *files, struct ht_err **ret_err);
/* A decimal number. */
HT_MUST_CHECK
struct ht_err *cmd_number(const char *option, const char *text, unsigned long max, size_t *ret);
struct option;
/* The error for what getopt_long refused; `known` are the command's options. */
HT_MUST_CHECK
struct ht_err *cmd_bad_option(int argc, char **argv, const struct option *known);
/* To be called before anything of a trace is printed, with what is known of its end. Where a part
 * was read, prints so to standard error, unless `is_shown` elsewhere, and has the program end with
 * CMD_EXIT_PART. */
void cmd_warn_ending(const struct model_ending *ending, bool is_shown);
void cmd_warn_model(const struct model *model);
#define CMD_EXIT_PART 7
/* The same for a command that reads without a model. HT_ERR_FORMAT where no record was read. */
HT_MUST_CHECK
struct ht_err *cmd_warn_reader(
	const struct trace_reader *reader, enum trace_end how_ended, bool has_end);
/* The same for a command that prints while it reads: reads the trace on `fd` up to its end and goes
 * back to where it was; `ret_bytes` is what there is of it. Does nothing where `fd` is a pipe:
 * `ret_bytes` is 0. HT_ERR_FORMAT where no record can be read. */
HT_MUST_CHECK
struct ht_err *cmd_check_ending(int fd, const char *path, uint64_t *ret_bytes);
/* Has it said so? */
bool cmd_has_read_part(void);
/* Flushes `out` and reports any error that its writes met. */
HT_MUST_CHECK
struct ht_err *cmd_flush(FILE *out, const char *name);
