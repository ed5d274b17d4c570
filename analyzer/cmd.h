/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands, and what they share: opening traces and outputs, numbers on the command line.
 */
#pragma once

#include <stdio.h>

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
/* A decimal number. */
HT_MUST_CHECK
struct ht_err *cmd_number(const char *option, const char *text, unsigned long max, size_t *ret);
/* The error for what getopt_long refused, or an option that a command does not have. */
HT_MUST_CHECK
struct ht_err *cmd_bad_option(int argc, char **argv);
/* Flushes `out` and reports any error that its writes met. */
HT_MUST_CHECK
struct ht_err *cmd_flush(FILE *out, const char *name);
