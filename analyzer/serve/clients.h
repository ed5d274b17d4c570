/* SPDX-License-Identifier: Apache-2.0
 *
 * The connections of a server. One that has sent no whole request for a while is closed, however
 * slowly its bytes come; the oldest such ones also when there are too many.
 */
#pragma once

#include "format/base.h"

struct client {
	struct client *previous, *next; /* of those that the server waits for */
	int fd;
	uint64_t since_ns; /* the server waits for a request; CLOCK_MONOTONIC */
	bool is_waited_for;
};

struct clients {
	struct client ring; /* of those that are waited for, the oldest first */
	uint32_t count, most;
};

#define CLIENTS_PATIENCE_NS 10000000000ull

/* `most`: more connections than these cost the oldest one that is waited for. */
void clients_init(struct clients *clients, uint32_t most);
/* NULL: out of memory; the connection is then not looked after. */
struct client *clients_add(struct clients *clients, int fd, uint64_t now_ns);
/* `client` may be NULL, here and below. */
void clients_remove(struct clients *clients, struct client *client);
/* A whole request has come; and its answer is out. */
void clients_asked(struct clients *clients, struct client *client);
void clients_answered(struct clients *clients, struct client *client, uint64_t now_ns);
/* Ends connections that were waited for too long: their reads find an end. */
void clients_end_slow(struct clients *clients, uint64_t now_ns);
