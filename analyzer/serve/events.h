/* SPDX-License-Identifier: Apache-2.0
 *
 * A running capture for pages: its state and its report as server-sent events, and requests that
 * control it.
 */
#pragma once

#include "analyzer/live/follow.h"
#include "analyzer/serve/exchange.h"
#include "analyzer/serve/stream.h"

#define EVENTS_STREAMS_MAX 16u
#define EVENTS_POLLED	   2u

struct events {
	const struct serve_config *config;
	struct follow follow;
	struct stream_hub hub;
	char *report;	   /* data of the last report event; NULL: none yet */
	struct job job;	   /* the job that makes the next report; pid 0: none */
	uint64_t reported; /* bytes of the trace that the last report was made from */
	struct serve_question question;
};

/* `config->live` is not NULL. Borrows `config`. Call events_deinit also after an error. */
HT_MUST_CHECK
struct ht_err *events_init(struct events *events, const struct serve_config *config);
void events_deinit(struct events *events);
/* Answers a request of ROUTE_CONTROL, or of ROUTE_EVENTS. */
enum MHD_Result events_control(struct events *events, struct exchange *exchange);
enum MHD_Result events_listen(struct events *events, struct exchange *exchange);
/* Fills in the descriptors that events_turn needs; returns the longest time to poll in ms. */
int events_poll(const struct events *events, struct pollfd polled[EVENTS_POLLED]);
void events_turn(struct events *events, const struct pollfd polled[EVENTS_POLLED]);
/* Ends all streams and all requests that wait for the capture. */
void events_end(struct events *events);
