/* SPDX-License-Identifier: Apache-2.0
 *
 * One request and its answer.
 */
#pragma once

#include <microhttpd.h>

#include "analyzer/serve/access.h"
#include "analyzer/serve/clients.h"
#include "analyzer/serve/job.h"
#include "analyzer/serve/reply.h"
#include "analyzer/serve/serve.h"

struct server;

enum exchange_state {
	EXCHANGE_NEW,	  /* its headers are not read */
	EXCHANGE_HEARD,	  /* they are; no request has a body */
	EXCHANGE_WAITING, /* for its turn */
	EXCHANGE_RUNNING, /* its job does */
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
	struct route_words words; /* what the question's values point to */
	struct serve_question question;
	char etag[REPLY_ETAG_BYTES], name[64];
	bool is_heavy; /* reads a trace once more */
	struct job job;
	int output; /* -1: none */
	struct ht_err *err;
	struct exchange *next; /* of those with a job, in the order of their coming */
};

/* `target` is copied. NULL: out of memory. */
struct exchange *exchange_create(
	struct server *server, struct MHD_Connection *connection, const char *target);
/* It has no job that runs. */
void exchange_destroy(struct exchange *exchange);
/* Its headers are there: answers it, or makes it wait for a job (state). */
enum MHD_Result exchange_begin(struct exchange *exchange, const char *method);
/* Its job is done: answers it. */
enum MHD_Result exchange_end(struct exchange *exchange);
/* Runs in the job. */
struct ht_err *exchange_answer(void *context);
