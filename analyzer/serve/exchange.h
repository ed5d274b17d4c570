/* SPDX-License-Identifier: Apache-2.0
 *
 * One request, what it asks for, and its answer.
 */
#pragma once

#include <microhttpd.h>

#include "analyzer/live/job.h"
#include "analyzer/serve/access.h"
#include "analyzer/serve/clients.h"
#include "analyzer/serve/reply.h"
#include "analyzer/serve/serve.h"

enum exchange_state {
	EXCHANGE_NEW,	  /* its headers are not read yet */
	EXCHANGE_HEARD,	  /* its headers are read; requests have no body */
	EXCHANGE_WAITING, /* it waits for its turn */
	EXCHANGE_RUNNING, /* its job runs */
	EXCHANGE_DONE,	  /* `err` or `output` is its answer */
};

struct exchange {
	const struct serve_config *config; /* of the server; borrowed */
	const struct access *access;
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
struct exchange *exchange_create(const struct serve_config *config, const struct access *access,
	struct MHD_Connection *connection, const char *target);
/* Call it only while no job of it runs. */
void exchange_destroy(struct exchange *exchange);
/* Call when its headers are read: checks who asks, and finds the route and the question. False: it
 * is refused; the answer is sent, and `*ret` is what libmicrohttpd is to get. */
bool exchange_read(struct exchange *exchange, const char *method, enum MHD_Result *ret);
/* Has the browser this answer, from the same traces? */
bool exchange_is_known(struct exchange *exchange);
/* Call when its job is done: answers it. */
enum MHD_Result exchange_end(struct exchange *exchange);
/* Runs in the job. */
struct ht_err *exchange_answer(void *context);
