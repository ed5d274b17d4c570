/* SPDX-License-Identifier: Apache-2.0
 *
 * A command's file: found and run as execvp(3) does, and, where that fails, why.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/*
 * Becomes the program argv[0], as execvp(3): found in PATH, and run by /bin/sh where the kernel
 * does not know its kind; not where the file is no text. Returns an error of errno.h.
 */
int command_exec(char *const argv[]);

/* Would command_exec find a file that may be executed? 0, or an error of errno.h. */
int command_check(const char *name);

/* Why command_exec of `name` has failed with `sys` in a process with this directory and
 * environment, for a person. */
struct ht_err *command_explain(const char *name, int sys);
