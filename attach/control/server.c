/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/control/server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Exit statuses of a client (DESIGN section 10). */
#define STATUS_INTERNAL	  1u
#define STATUS_PERMISSION 4u

struct connection {
	int fd;	    /* -1: free */
	bool waits; /* its client waits for the end of the capture */
	uint64_t since_ns;
	size_t length;
	char line[CONTROL_LINE_MAX];
};

struct server {
	int listener; /* -1: closed */
	server_handler *handler;
	void *context;
	unsigned waiting;
	struct connection connection[SERVER_CONNECTIONS];
};

struct server *server_create(int listener, server_handler *handler, void *context)
{
	struct server *server = calloc(1, sizeof(*server));
	if (!server)
		return NULL;
	server->listener = listener;
	server->handler = handler;
	server->context = context;
	for (size_t i = 0; i < SERVER_CONNECTIONS; i++)
		server->connection[i].fd = -1;
	return server;
}

static void hang_up(struct server *server, struct connection *connection)
{
	close(connection->fd);
	connection->fd = -1;
	server->waiting -= connection->waits;
	connection->waits = false;
}

/* One line fits into the empty send buffer of a new connection. If it does not, the client gets no
 * answer: heaptap does not wait. */
static void send_reply(int fd, const struct control_reply *reply)
{
	char line[CONTROL_LINE_MAX];
	size_t length = control_reply_encode(reply, line);
	ssize_t sent = send(fd, line, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)sent;
}

static void refuse(int fd, uint64_t exit_status, const char *why)
{
	struct control_reply reply = {.exit_status = exit_status};
	snprintf(reply.message, sizeof(reply.message), "%s", why);
	send_reply(fd, &reply);
}

static bool is_allowed(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

/* Returns a free connection; without one, closes the oldest that has sent no request yet. NULL: all
 * wait for the end. */
static struct connection *find_place(struct server *server)
{
	struct connection *found = NULL;
	for (size_t i = 0; i < SERVER_CONNECTIONS; i++) {
		struct connection *connection = &server->connection[i];
		if (connection->fd < 0)
			return connection;
		if (!connection->waits && (!found || connection->since_ns < found->since_ns))
			found = connection;
	}
	if (found)
		hang_up(server, found);
	return found;
}

/* Has the client closed the connection? A client that has only shut down its sending side still
 * reads. */
static bool is_gone(int fd)
{
	struct pollfd pollfd = {.fd = fd};
	return poll(&pollfd, 1, 0) > 0 && pollfd.revents & (POLLHUP | POLLERR);
}

static void take_request(struct server *server, struct connection *connection, size_t length)
{
	struct control_request request;
	struct control_reply reply = {0};
	/* The client did not wait for its answer: its user believes that nothing was done. */
	if (is_gone(connection->fd)) {
		hang_up(server, connection);
		return;
	}
	const char *problem = control_request_parse(connection->line, length, &request);
	if (!problem && request.wait && server->waiting == SERVER_WAITING_MAX)
		problem = "too many clients wait for the end of this capture";
	if (problem) {
		refuse(connection->fd, STATUS_INTERNAL, problem);
		hang_up(server, connection);
		return;
	}
	server->handler(server->context, &request, &reply);
	connection->waits = reply.ok && request.wait;
	server->waiting += connection->waits;
	if (connection->waits)
		return;
	send_reply(connection->fd, &reply);
	hang_up(server, connection);
}

/* A client that waits for the end sends nothing more: drop all bytes, and notice the end of the
 * connection. */
static void watch_waiting(struct server *server, struct connection *connection)
{
	ssize_t got = recv(connection->fd, connection->line, CONTROL_LINE_MAX, MSG_DONTWAIT);
	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		hang_up(server, connection);
}

static void read_request(struct server *server, struct connection *connection, uint64_t now_ns)
{
	char *from = connection->line + connection->length;
	ssize_t got =
		recv(connection->fd, from, CONTROL_LINE_MAX - connection->length, MSG_DONTWAIT);
	if (got > 0) {
		const char *end = memchr(from, '\n', (size_t)got);
		connection->length += (size_t)got;
		if (end || connection->length == CONTROL_LINE_MAX)
			take_request(server, connection,
				end ? (size_t)(end - connection->line) : connection->length);
	} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
		hang_up(server, connection);
	}
	if (connection->fd >= 0 && !connection->waits &&
		now_ns - connection->since_ns > SERVER_PATIENCE_NS) {
		refuse(connection->fd, STATUS_INTERNAL, "no request came in two seconds");
		hang_up(server, connection);
	}
}

static void accept_some(struct server *server, uint64_t now_ns)
{
	for (unsigned i = 0; i < SERVER_ACCEPTS_MAX && server->listener >= 0; i++) {
		int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		struct connection *connection = is_allowed(fd) ? find_place(server) : NULL;
		if (!connection) {
			refuse(fd, STATUS_PERMISSION,
				"only root and the user who runs the capture may steer it");
			close(fd);
			continue;
		}
		connection->fd = fd;
		connection->since_ns = now_ns;
		connection->length = 0;
		/* Most requests have come already. */
		read_request(server, connection, now_ns);
	}
}

void server_serve(struct server *server, uint64_t now_mono_ns)
{
	for (size_t i = 0; i < SERVER_CONNECTIONS; i++) {
		struct connection *connection = &server->connection[i];
		if (connection->fd >= 0 && connection->waits)
			watch_waiting(server, connection);
		else if (connection->fd >= 0)
			read_request(server, connection, now_mono_ns);
	}
	accept_some(server, now_mono_ns);
}

bool server_is_busy(const struct server *server)
{
	for (size_t i = 0; i < SERVER_CONNECTIONS; i++)
		if (server->connection[i].fd >= 0 && !server->connection[i].waits)
			return true;
	return false;
}

void server_close_listener(struct server *server)
{
	server->listener = -1;
}

void server_tell_end(struct server *server, const struct control_reply *reply)
{
	for (size_t i = 0; i < SERVER_CONNECTIONS; i++) {
		struct connection *connection = &server->connection[i];
		if (connection->fd < 0 || !connection->waits)
			continue;
		send_reply(connection->fd, reply);
		hang_up(server, connection);
	}
}

void server_destroy(struct server *server)
{
	if (!server)
		return;
	for (size_t i = 0; i < SERVER_CONNECTIONS; i++)
		if (server->connection[i].fd >= 0)
			close(server->connection[i].fd);
	free(server);
}
