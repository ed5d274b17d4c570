/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue of exchanges that jobs answer, in the order of arrival.
 */
#pragma once

#include <poll.h>

#include "analyzer/serve/exchange.h"

#define QUEUE_JOBS_MAX	  3u  /* running jobs */
#define QUEUE_WAITING_MAX 64u /* waiting exchanges */

struct queue {
	struct exchange *first; /* running or waiting */
	uint32_t running, running_heavy, waiting;
};

/* Suspends the request until its job is done; false: too many wait. */
bool queue_add(struct queue *queue, struct exchange *exchange);
/* Starts as many jobs as may run at once. */
void queue_start(struct queue *queue);
/* Fills in the descriptors that queue_turn needs; returns their number. */
size_t queue_poll(const struct queue *queue, struct pollfd polled[QUEUE_JOBS_MAX]);
/* Ends the jobs that are done, and those that exceeded their time. No job may have been started or
 * ended since queue_poll. */
void queue_turn(struct queue *queue, const struct pollfd *polled);
/* Ends all jobs, and refuses the exchanges that wait. */
void queue_end(struct queue *queue);
