/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/clients.h"

#include <stdlib.h>
#include <sys/socket.h>

void clients_init(struct clients *clients, uint32_t most)
{
	*clients = (struct clients){.most = most};
	clients->ring.previous = clients->ring.next = &clients->ring;
}

static void leave(struct client *client)
{
	if (!client->is_waited_for)
		return;
	client->previous->next = client->next;
	client->next->previous = client->previous;
	client->is_waited_for = false;
}

static void enter(struct clients *clients, struct client *client, uint64_t now_ns)
{
	leave(client);
	client->since_ns = now_ns;
	client->is_waited_for = true;
	client->next = &clients->ring;
	client->previous = clients->ring.previous;
	client->previous->next = clients->ring.previous = client;
}

/* Only shut the connection down: libmicrohttpd then reads its end and closes it. */
static void end_oldest(struct clients *clients)
{
	struct client *oldest = clients->ring.next;
	shutdown(oldest->fd, SHUT_RDWR);
	leave(oldest);
}

static bool has_any(const struct clients *clients)
{
	return clients->ring.next != &clients->ring;
}

struct client *clients_add(struct clients *clients, int fd, uint64_t now_ns)
{
	struct client *client = calloc(1, sizeof(*client));
	if (!client)
		return NULL;
	client->fd = fd;
	clients->count++;
	if (clients->count > clients->most && has_any(clients))
		end_oldest(clients);
	enter(clients, client, now_ns);
	return client;
}

void clients_remove(struct clients *clients, struct client *client)
{
	if (!client)
		return;
	leave(client);
	clients->count--;
	free(client);
}

void clients_asked(struct clients *clients, struct client *client)
{
	(void)clients;
	if (client)
		leave(client);
}

void clients_answered(struct clients *clients, struct client *client, uint64_t now_ns)
{
	if (client)
		enter(clients, client, now_ns);
}

void clients_end_slow(struct clients *clients, uint64_t now_ns)
{
	while (has_any(clients) && clients->ring.next->since_ns + CLIENTS_PATIENCE_NS <= now_ns)
		end_oldest(clients);
}
