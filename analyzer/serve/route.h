/* SPDX-License-Identifier: Apache-2.0
 *
 * The paths of the server, and the command that each request runs. Parameters are options of that
 * command; the option parser reads them.
 */
#pragma once

#include "analyzer/cli/option.h"
#include "analyzer/serve/request.h"
#include "analyzer/serve/traces.h"

enum route_kind {
	ROUTE_PAGE,    /* the page itself */
	ROUTE_DATA,    /* the page's tables and facts */
	ROUTE_COMMAND, /* the output of a command with --json */
	ROUTE_TRACES,  /* the list of traces */
	ROUTE_EVENTS,  /* the progress of a capture, as server-sent events */
	ROUTE_CONTROL, /* controls a capture; POST */
};

enum route_traces {
	ROUTE_ONE,	  /* parameter trace, otherwise the first trace */
	ROUTE_TWO,	  /* parameters base and trace, otherwise the first two traces */
	ROUTE_ONE_OR_TWO, /* two if parameter base is given */
	ROUTE_ALL,
};

struct route {
	const char *path; /* below ROUTE_PREFIX; "": the page */
	enum route_kind kind;
	const char *command;	   /* the command whose options are its parameters; NULL: none */
	const char *fixed;	   /* an option of that command that is always given, or NULL */
	const char *const *member; /* members of its JSON that are sent; NULL: all */
	enum option_id needs;	  /* NAME of path/NAME is the value of this option; OPTION_NONE: the
				     path has no NAME */
	const char *operand;	  /* parameter that is the last operand, or NULL */
	enum route_traces traces; /* traces that are the command's operands */
	enum option_id base;	  /* option whose value is the trace that parameter base names;
				     OPTION_NONE: none */
};

#define ROUTE_PREFIX	"/api/v1/"
#define ROUTE_WORDS_MAX (REQUEST_PARAMETERS_MAX + SERVE_TRACES_MAX + 8u)

/* The route of a path; NULL: none. `*ret_rest`: the part of the path after the route's name, "" or
 * NAME. */
const struct route *route_find(const char *path, const char **ret_rest);
/* All routes; the first is the page. */
extern const struct route route_table[];
extern const size_t route_count;

/* A command line. */
struct route_words {
	char *word[ROUTE_WORDS_MAX];
	int count;
};

/*
 * Makes the words after the name of the route's command. `path`: the server's traces; `rest`: from
 * route_find. HT_ERR_USAGE: no such trace; a parameter that is not an option of the command or
 * would name a file of this machine. The option parser checks the values. Call route_words_deinit
 * also after an error.
 */
HT_MUST_CHECK
struct ht_err *route_words(const struct option_table *table, const struct route *route,
	const char *rest, const struct request *request, const char *const *path, size_t path_count,
	struct route_words *ret);
void route_words_deinit(struct route_words *words);
