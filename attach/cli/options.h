/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line, read by the table of commands and options (option_table.h).
 */
#pragma once

#include <sys/types.h>

#include "attach/allocators/given.h"
#include "attach/cli/option_table.h"
#include "attach/cli/series.h"
#include "attach/plan/entries.h"
#include "attach/process/find.h"
#include "format/base.h"
#include "format/err.h"

#define OPTIONS_PIDS_MAX 64u
#define OPTIONS_LOGS_MAX 8u

struct options {
	enum command command;
	const char *help_of; /* COMMAND_HELP: the command whose help is wanted; NULL: all */
	pid_t pid;	     /* 0: the command line names no process, or describes it by `find` */
	pid_t pids[OPTIONS_PIDS_MAX];
	unsigned pid_count;	/* for attach, the number of -p, of which `pid` is the last; else at
				   most 1 */
	bool is_one_of_several; /* captures of several -p share a terminal */
	const char *logs[OPTIONS_LOGS_MAX]; /* values of --mark-log, FILE=REGEX, from main's argv */
	unsigned log_count;
	struct find_query find; /* points into main's argv */
	char *output;		/* owned; a pattern (naming.h); NULL: the default name */
	char *page;	  /* owned; value of --html=PAGE, a pattern; NULL: named after the trace */
	const char *text; /* the text of mark */
	/* A command and its arguments, the end of main's argv: for run the command to record, for
	 * attach the command during which heaptap records. NULL: none. */
	char **words;
	uint64_t duration_ns;	   /* 0: no limit */
	uint64_t max_overhead_ppm; /* share of the target's CPU time; 0: no limit */
	uint64_t settle_ns;	   /* 0: no settle time after the window */
	uint64_t sample_bytes;	   /* 0: every allocation */
	uint64_t cull_ns;	   /* blocks that live for less become sums; 0: none */
	uint64_t linger_ns;	   /* how long the guardian waits for a jump page; 0: not at all */
	struct series_options series;
	enum entries_mode hook;	 /* functions of linked-in allocators: slots or entries */
	struct given_list given; /* functions of the program's own allocator (--alloc-fn) */
	/* `replace` also means: record a process that profiles its own heap. */
	bool replace, quiet, verbose, json, lossless, mappings, full_unwind, symbolize_later,
		no_cache, follow_forks, strict, wait, html, wait_for, background, metrics;
};

/* Parses the arguments. HT_ERR_USAGE names the wrong word and the remedy; nothing needs to be freed
 * then. */
HT_MUST_CHECK
struct ht_err *options_parse(int argc, char **argv, struct options *ret);
void options_deinit(struct options *options);
