/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads exports with the programs that they are made for, and sums up their figures. Each function
 * fails the running test on error.
 */
#pragma once

/* Exports a trace; returns the path, malloc'd. `extra` are further options, ended by NULL, may be
 * NULL; `ret_words` is what heaptap says, may be NULL. */
char *figures_export(
	const char *trace, const char *format, const char *const extra[], char **ret_words);
/* Exports a trace to each format, has its reader read it, and checks that the figures found are
 * those that the man page lists for the format, and that each is the report's. `part` are options
 * that choose a part of the trace, ended by NULL; NULL: all of it. */
void figures_check_all(const char *trace, const char *const part[]);
