/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves the socket of a capture between two looks at the target. No function waits: a pass takes
 * the requests that have come, within the limits below, and refuses or closes connections beyond
 * these. A connection has one request and one answer.
 */
#pragma once

#include "format/control.h"

/* Connections at a time. One more closes the oldest connection that has sent no request yet. */
#define SERVER_CONNECTIONS 8u
/* How many of these may wait for the end of the capture. */
#define SERVER_WAITING_MAX 4u
/* Connections that one pass accepts. */
#define SERVER_ACCEPTS_MAX 16u
/* How long a client may take to send its request. */
#define SERVER_PATIENCE_NS 2000000000ull

struct server;

/* Carries out a request, and fills the answer `ret`, which is zero-initialised. */
typedef void server_handler(
	void *context, const struct control_request *request, struct control_reply *ret);

/* `listener`: a listening, non-blocking unix stream socket, borrowed. NULL: no memory. */
struct server *server_create(int listener, server_handler *handler, void *context);
/* Makes one pass: accepts connections, reads requests and answers them. */
void server_serve(struct server *server, uint64_t now_mono_ns);
/* Is there a connection whose request has not come yet? Then make the next pass within
 * milliseconds; otherwise when the listener is readable. */
bool server_is_busy(const struct server *server);
/* From here on no connection is accepted; clients that wait for the end stay connected. Does not
 * close the listener's descriptor. */
void server_close_listener(struct server *server);
/* Answers the clients that wait for the end of the capture, and closes their connections. */
void server_tell_end(struct server *server, const struct control_reply *reply);
/* Closes all connections, and frees the server. Accepts NULL. */
void server_destroy(struct server *server);
