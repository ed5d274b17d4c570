/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves the socket of a capture between two looks at the target. Nothing here waits: a pass takes
 * what has come, within limits, and what is late, too long or too much is refused or closed. A
 * connection has one request and one answer.
 */
#pragma once

#include "format/control.h"

/* At once; a new one takes the place of the one that has been silent for longest. */
#define SERVER_CONNECTIONS 8u
/* Of these, that wait for the end of the capture. */
#define SERVER_WAITING_MAX 4u
/* Taken from the queue by one pass. */
#define SERVER_ACCEPTS_MAX 16u
/* For a whole request. */
#define SERVER_PATIENCE_NS 2000000000ull

struct server;

/* Carries out a request, and fills the answer, which is zero-initialised. */
typedef void server_handler(
	void *context, const struct control_request *request, struct control_reply *ret);

/* `listener`: a listening, non-blocking unix stream socket, borrowed. NULL: no memory. */
struct server *server_create(int listener, server_handler *handler, void *context);
/* One pass. */
void server_serve(struct server *server, uint64_t now_mono_ns);
/* Is a request awaited on a connection? Then a pass is due within milliseconds; else when the
 * listener is readable. */
bool server_is_busy(const struct server *server);
/* No connection is accepted from here on, and those that wait for the end stay. */
void server_close_listener(struct server *server);
/* Answers those that wait for the end of the capture. */
void server_tell_end(struct server *server, const struct control_reply *reply);
/* Closes all connections. */
void server_destroy(struct server *server);
