/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP request: its route and parameters, and its answer.
 */
#pragma once

#include <microhttpd.h>

#include "analyzer/live/job.h"
#include "analyzer/serve/access.h"
#include "analyzer/serve/clients.h"
#include "analyzer/serve/reply.h"
#include "analyzer/serve/serve.h"

enum exchange_state {
	EXCHANGE_NEW,	  /* the request's headers are not read yet */
	EXCHANGE_HEARD,	  /* the headers are read; requests have no body */
	EXCHANGE_WAITING, /* it waits in the queue for a job */
	EXCHANGE_RUNNING, /* its job runs, or the capture has its request */
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
	struct exchange *next; /* next exchange of the queue, in the order of arrival */
};

/* `target` is copied. NULL: out of memory. */
struct exchange *exchange_create(const struct serve_config *config, const struct access *access,
	struct MHD_Connection *connection, const char *target);
/* Call it only while no job of the exchange runs. */
void exchange_destroy(struct exchange *exchange);
/* Call when the headers are read: checks access, and finds the route and the question. False: the
 * request was refused and answered; return `*ret` to libmicrohttpd. */
bool exchange_read(struct exchange *exchange, const char *method, enum MHD_Result *ret);
/* Sets the ETag. Returns whether the browser already has this answer (If-None-Match), made from the
 * same traces. */
bool exchange_is_known(struct exchange *exchange);
/* Call when the state is EXCHANGE_DONE: sends the answer. */
enum MHD_Result exchange_end(struct exchange *exchange);
/* Runs in the job's process: writes the answer to standard output. */
struct ht_err *exchange_answer(void *context);
