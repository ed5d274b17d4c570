/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves traces over HTTP to a browser or a script on this machine. The server process makes no
 * report itself: for each one, a forked process runs a command (job.h). analyzer/serve/DESIGN.md
 * has the reasons.
 */
#pragma once

#include "analyzer/cli/option.h"
#include "analyzer/live/follow.h"
#include "analyzer/serve/route.h"
#include "analyzer/serve/traces.h"

/* A request to answer on standard output. */
struct serve_question {
	enum route_kind kind;
	const struct option_command *command; /* NULL for ROUTE_TRACES */
	struct option_values values;	      /* of that command; the traces are its operands */
	const char *const *member; /* names of the JSON members to write; NULL: all (route.h) */
};

struct serve_config {
	const struct option_table *table;
	struct serve_traces *traces; /* borrowed */
	uint16_t port;		     /* 0: any free port */
	const char *page, *policy;   /* the page and its Content-Security-Policy */
	/* Answers a question; called in a forked process. */
	struct ht_err *(*answer)(void *context, const struct serve_question *question);
	/* Called when the server answers at `address`, which contains the token; the server opens
	 * no more files from then on. */
	struct ht_err *(*ready)(void *context, const char *address, uint16_t port);
	/* the capture of the first trace, while it runs; NULL: none */
	const struct follow_config *live;
	void *context;
};

/* False if this program was built without libmicrohttpd. */
bool serve_is_built(void);
/* Serves until SIGINT, SIGTERM or SIGHUP. HT_ERR_REFUSED: the port is in use. */
HT_MUST_CHECK
struct ht_err *serve_run(const struct serve_config *config);
