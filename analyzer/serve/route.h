/* SPDX-License-Identifier: Apache-2.0
 *
 * What is at which path, and the command that a request stands for: its parameters are options of
 * that command, and are read by the parser of options.
 */
#pragma once

#include "analyzer/cli/option.h"
#include "analyzer/serve/request.h"
#include "analyzer/serve/traces.h"

enum route_kind {
	ROUTE_PAGE,    /* the page itself */
	ROUTE_DATA,    /* what the page shows: tables and facts, compressed */
	ROUTE_COMMAND, /* what a command prints with --json */
	ROUTE_TRACES,  /* which traces there are */
	ROUTE_EVENTS,  /* how a capture goes on, as server-sent events */
	ROUTE_CONTROL, /* steers a capture; POST */
};

enum route_traces {
	ROUTE_ONE,	  /* parameter trace, else the first */
	ROUTE_TWO,	  /* parameters base and trace, else the first two */
	ROUTE_ONE_OR_TWO, /* two where parameter base is given */
	ROUTE_ALL,
};

struct route {
	const char *path; /* below ROUTE_PREFIX; "" of the page */
	enum route_kind kind;
	const char *command;	   /* whose options are its parameters; NULL: it has none */
	const char *fixed;	   /* an option of that command that is always given, or NULL */
	const char *const *member; /* members of its JSON that are sent; NULL: all */
	enum option_id needs;	   /* NAME of path/NAME is the value of this option */
	const char *operand;	   /* parameter that is the last operand, or NULL */
	enum route_traces traces;  /* its operands */
	enum option_id base;	   /* parameter base names the trace that is its value */
};

#define ROUTE_PREFIX	"/api/v1/"
#define ROUTE_WORDS_MAX (REQUEST_PARAMETERS_MAX + SERVE_TRACES_MAX + 8u)

/* The route of a path, and what follows its name ("" or NAME); NULL: there is none. */
const struct route *route_find(const char *path, const char **ret_rest);
/* All of them; the first is the page. */
extern const struct route route_table[];
extern const size_t route_count;

/* A command line. */
struct route_words {
	char *word[ROUTE_WORDS_MAX];
	int count;
};

/*
 * The words behind the name of the route's command; `path` are the server's traces, `rest` is of
 * route_find. HT_ERR_USAGE: no such trace; a parameter that is no option of the command, or that
 * would name a file of this machine. What the values mean is the parser's to say.
 * route_words_deinit also after an error.
 */
HT_MUST_CHECK
struct ht_err *route_words(const struct option_table *table, const struct route *route,
	const char *rest, const struct request *request, const char *const *path, size_t path_count,
	struct route_words *ret);
void route_words_deinit(struct route_words *words);
