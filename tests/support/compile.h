/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles small programs and libraries during a test, which chooses how they are linked.
 */
#pragma once

#define COMPILE_OPTIONS_MAX 12

/*
 * Compiles C `source` by `command` (compiler and options before the input, NULL-terminated) and
 * `libraries` (options behind it, or NULL) into a file in the test's directory. Returns its path,
 * malloc'd; NULL if the command fails, as it does where this machine lacks the compiler, an option
 * or a library.
 */
char *compile(const char *const command[], const char *source, const char *const libraries[]);

/* Like compile, without libraries. If it returns NULL, it prints that the check of `what` is
 * skipped. */
char *compile_or_skip(const char *what, const char *const command[], const char *source);
