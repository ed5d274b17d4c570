/* SPDX-License-Identifier: Apache-2.0
 *
 * One request and its answer.
 */
#pragma once

#include <microhttpd.h>

#include "analyzer/serve/access.h"
#include "analyzer/serve/clients.h"
#include "analyzer/live/job.h"
#include "analyzer/serve/reply.h"
#include "analyzer/serve/serve.h"

struct server;

enum exchange_state {
	EXCHANGE_NEW,	  /* its headers are not read yet */
	EXCHANGE_HEARD,	  /* its headers are read; requests have no body */
	EXCHANGE_WAITING, /* it waits for its turn */
	EXCHANGE_RUNNING, /* its job runs */
	EXCHANGE_DONE,	  /* `err` or `output` is its answer */
};

struct exchange {
	struct server *server;
	struct MHD_Connection *connection;
	struct client *client;
	char *target;
	enum exchange_state state;
	struct request request;
	const struct route *route;
	struct route_words words; /* memory of the question's values */
	struct serve_question question;
	char etag[REPLY_ETAG_BYTES], name[64];
	bool is_heavy; /* reads a trace again */
	struct job job;
	int output; /* -1: none */
	struct ht_err *err;
	struct exchange *next; /* next of those with a job, in order of arrival */
};

/* `target` is copied. NULL: out of memory. */
struct exchange *exchange_create(
	struct server *server, struct MHD_Connection *connection, const char *target);
/* Call it only while no job of it runs. */
void exchange_destroy(struct exchange *exchange);
/* Call when its headers are read: answers it, or queues a job (state). */
enum MHD_Result exchange_begin(struct exchange *exchange, const char *method);
/* Call when its job is done: answers it. */
enum MHD_Result exchange_end(struct exchange *exchange);
/* Runs in the job. */
struct ht_err *exchange_answer(void *context);
