/* SPDX-License-Identifier: Apache-2.0
 *
 * The connections of a server. A connection that has not sent a whole request within 10 s is
 * closed, even if bytes still arrive slowly. If there are too many connections, those that the
 * server has waited for longest are closed too.
 */
#pragma once

#include <sys/queue.h>

#include "format/base.h"

struct client {
	TAILQ_ENTRY(client) link; /* in `waited_for` */
	int fd;
	uint64_t since_ns; /* time since which the server waits for a request; CLOCK_MONOTONIC */
	bool is_waited_for;
};

struct clients {
	TAILQ_HEAD(, client)
	waited_for; /* connections that have not sent a whole request, the
		       oldest first */
	uint32_t count, most;
};

#define CLIENTS_PATIENCE_NS 10000000000ull

/* `most`: with more connections, the first one of `waited_for` is closed. */
void clients_init(struct clients *clients, uint32_t most);
/* NULL: out of memory; the connection then has no time limit. */
struct client *clients_add(struct clients *clients, int fd, uint64_t now_ns);
/* `client` may be NULL, here and in the next two functions. */
void clients_remove(struct clients *clients, struct client *client);
/* clients_asked: a whole request has arrived. clients_answered: its answer is sent. */
void clients_asked(struct clients *clients, struct client *client);
void clients_answered(struct clients *clients, struct client *client, uint64_t now_ns);
/* Shuts down the connections that have not sent a whole request within CLIENTS_PATIENCE_NS;
 * libmicrohttpd then reads their end and closes them. */
void clients_end_slow(struct clients *clients, uint64_t now_ns);
