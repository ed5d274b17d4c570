/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the file of a command and runs it, as execvp(3) does, and explains why that fails.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* Becomes the program argv[0], as execvp(3) does: searches PATH, and lets /bin/sh run a text file
 * that the kernel cannot run; but not a binary file. Returns only if that fails, with an error of
 * errno.h. */
int command_exec(char *const argv[]);

/* Would command_exec find a file that may be executed? 0, or an error of errno.h. */
int command_check(const char *name);

/* Explains to the user why command_exec of `name` has failed with `sys`, in a process with the same
 * working directory and environment as this one. Always HT_ERR_USAGE. */
struct ht_err *command_explain(const char *name, int sys);
