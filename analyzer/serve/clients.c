/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/clients.h"

#include <stdlib.h>
#include <sys/socket.h>

void clients_init(struct clients *clients, uint32_t most)
{
	*clients = (struct clients){.most = most};
	TAILQ_INIT(&clients->waited_for);
}

static void leave(struct clients *clients, struct client *client)
{
	if (client->is_waited_for)
		TAILQ_REMOVE(&clients->waited_for, client, link);
	client->is_waited_for = false;
}

static void enter(struct clients *clients, struct client *client, uint64_t now_ns)
{
	leave(clients, client);
	client->since_ns = now_ns;
	client->is_waited_for = true;
	TAILQ_INSERT_TAIL(&clients->waited_for, client, link);
}

/* Only shut the connection down: libmicrohttpd then reads its end and closes it. */
static void end(struct clients *clients, struct client *client)
{
	shutdown(client->fd, SHUT_RDWR);
	leave(clients, client);
}

struct client *clients_add(struct clients *clients, int fd, uint64_t now_ns)
{
	struct client *client = calloc(1, sizeof(*client));
	if (!client)
		return NULL;
	client->fd = fd;
	clients->count++;
	if (clients->count > clients->most && !TAILQ_EMPTY(&clients->waited_for))
		end(clients, TAILQ_FIRST(&clients->waited_for));
	enter(clients, client, now_ns);
	return client;
}

void clients_remove(struct clients *clients, struct client *client)
{
	if (!client)
		return;
	leave(clients, client);
	clients->count--;
	free(client);
}

void clients_asked(struct clients *clients, struct client *client)
{
	if (client)
		leave(clients, client);
}

void clients_answered(struct clients *clients, struct client *client, uint64_t now_ns)
{
	if (client)
		enter(clients, client, now_ns);
}

void clients_end_slow(struct clients *clients, uint64_t now_ns)
{
	struct client *oldest;
	while ((oldest = TAILQ_FIRST(&clients->waited_for)) &&
		oldest->since_ns + CLIENTS_PATIENCE_NS <= now_ns)
		end(clients, oldest);
}
