/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture while it runs: reads on in its trace, tells those that listen twice a second how it
 * goes on, and steers it.
 */
#pragma once

#include <poll.h>

#include "analyzer/serve/exchange.h"

#define FOLLOW_ASKED_MAX   16u
#define FOLLOW_STREAMS_MAX 16u
#define FOLLOW_POLLED	   2u

struct stream;

struct follow {
	struct server *server;
	struct control_reply last;		  /* the capture's last answer */
	bool is_steered;			  /* the keeper answers */
	struct exchange *asked[FOLLOW_ASKED_MAX]; /* exchanges that wait for its answers; NULL: the
						     server itself */
	size_t asked_count;
	struct stream *streams;
	size_t stream_count;
	char *report, *message; /* of the last event: its data, and the bytes to send */
	uint64_t generation;	/* number of the message */
	struct job job;		/* the job that makes the next report; pid 0: none */
	struct serve_question question;
	uint64_t next_ns, read, reported; /* next tick; bytes of the trace read, and shown */
	bool has_more, has_ended;
};

/* `config` has a capture. */
HT_MUST_CHECK
struct ht_err *follow_init(struct follow *follow, struct server *server);
void follow_deinit(struct follow *follow);
/* Answers a request of ROUTE_CONTROL, or of ROUTE_EVENTS. */
enum MHD_Result follow_control(struct follow *follow, struct exchange *exchange);
enum MHD_Result follow_listen(struct follow *follow, struct exchange *exchange);
/* Fills in what follow_turn waits for, and returns for how long at most. */
int follow_poll(const struct follow *follow, struct pollfd polled[FOLLOW_POLLED]);
void follow_turn(struct follow *follow, const struct pollfd polled[FOLLOW_POLLED]);
/* Ends all streams. */
void follow_end(struct follow *follow);
