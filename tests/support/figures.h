/* SPDX-License-Identifier: Apache-2.0
 *
 * Has each export read by the program that it is made for, and sums up the figures that the program
 * prints. Each function fails the running test on error.
 */
#pragma once

/* Exports a trace; returns the path, malloc'd. `extra` are further options, ended by NULL, may be
 * NULL; `ret_words` gets what heaptap prints, may be NULL. */
char *figures_export(
	const char *trace, const char *format, const char *const extra[], char **ret_words);
/* Exports a trace to each format, and has the format's reader read it. Checks that the reader finds
 * exactly the figures that the man page lists for the format, and that each equals the report's.
 * `part` are options that choose a part of the trace, ended by NULL; NULL: the whole trace. */
void figures_check_all(const char *trace, const char *const part[]);
