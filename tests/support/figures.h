/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads each export, where possible by the program that it is made for, and sums up its figures.
 * Each function fails the running test on error.
 */
#pragma once

/* Exports a trace; returns the path, malloc'd. `extra` (or NULL) are further options, ended by
 * NULL; `ret_words` (unless NULL) gets heaptap's stderr, malloc'd. */
char *figures_export(
	const char *trace, const char *format, const char *const extra[], char **ret_words);
/* Exports a trace to each format, and reads the export. Checks that it has exactly the figures that
 * the man page lists for the format, and that each equals the report's. `part` are options that
 * choose a part of the trace, ended by NULL; peaks are not compared then. NULL: the whole trace. */
void figures_check_all(const char *trace, const char *const part[]);
