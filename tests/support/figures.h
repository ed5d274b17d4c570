/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs that exports are for find in them: read as a person would, and added up.
 * Whatever goes wrong fails the running test.
 */
#pragma once

#include <jansson.h>

#include "format/base.h"

#define FIGURES 6u

enum figure { CALLS, ALLOCATED, BLOCKS, OUTSTANDING, PEAK, TEMPORARY };
/* Their names in `totals` of report --json, by enum figure. */
extern const char *const figures_name[FIGURES];

/* Those that a reader found. */
struct figures {
	bool has[FIGURES];
	uint64_t value[FIGURES];
};

/* Exports a trace; returns the path, malloc'd. `extra` are further options, ended by NULL, may be
 * NULL; `ret_words` is what heaptap says, may be NULL. */
char *figures_export(
	const char *trace, const char *format, const char *const extra[], char **ret_words);
/* The number behind `name` in such words. */
uint64_t figures_stated(const char *words, const char *name);
/* All figures of these two formats, as pprof and Python's csv read them. */
void figures_of_pprof(const char *path, struct figures *ret);
void figures_of_csv(const char *path, struct figures *ret);
/* The figures found are those that the man page lists for the format, and each is the report's. */
void figures_check(const json_t *report, const char *format, const struct figures *found);
/* Exports a trace to each format, has its reader read it, and checks the figures. */
void figures_check_all(const char *trace);
