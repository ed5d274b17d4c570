/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of a server: which of them end.
 */
#include "analyzer/serve/clients.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

#define COUNT 5u

struct pairs {
	struct clients clients;
	struct client *client[COUNT];
	int near[COUNT], far[COUNT];
};

static void open_pairs(struct pairs *pairs, uint32_t most)
{
	clients_init(&pairs->clients, most);
	for (size_t i = 0; i < COUNT; i++) {
		int fd[2];
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
		pairs->near[i] = fd[0];
		pairs->far[i] = fd[1];
		pairs->client[i] = clients_add(&pairs->clients, fd[0], 100 + i);
	}
}

/* Checks one letter for each connection: l if it lasts, e if it has ended. */
static void check(const struct pairs *pairs, const char *expected)
{
	char text[COUNT + 1] = "";
	for (size_t i = 0; i < COUNT; i++) {
		struct pollfd far = {pairs->far[i], POLLIN, 0};
		text[i] = poll(&far, 1, 0) ? 'e' : 'l';
	}
	ck_assert_str_eq(text, expected);
}

static void close_pairs(struct pairs *pairs)
{
	for (size_t i = 0; i < COUNT; i++) {
		clients_remove(&pairs->clients, pairs->client[i]);
		close(pairs->near[i]);
		close(pairs->far[i]);
	}
	ck_assert_uint_eq(pairs->clients.count, 0);
}

HT_TEST(the_slow_end)
{
	struct pairs pairs;
	open_pairs(&pairs, 10);
	clients_asked(&pairs.clients, pairs.client[0]);
	clients_end_slow(&pairs.clients, 101 + CLIENTS_PATIENCE_NS);
	check(&pairs, "lelll");
	/* After an answer the client has the whole time again. */
	clients_answered(&pairs.clients, pairs.client[0], 200);
	clients_end_slow(&pairs.clients, 199 + CLIENTS_PATIENCE_NS);
	check(&pairs, "leeee");
	clients_end_slow(&pairs.clients, 200 + CLIENTS_PATIENCE_NS);
	check(&pairs, "eeeee");
	close_pairs(&pairs);
}

HT_TEST(too_many_cost_the_oldest)
{
	struct pairs pairs;
	open_pairs(&pairs, 3);
	check(&pairs, "eelll");
	close_pairs(&pairs);
}

HT_TEST(those_that_are_answered_stay)
{
	struct pairs pairs;
	open_pairs(&pairs, COUNT);
	for (size_t i = 0; i < COUNT; i++)
		clients_asked(&pairs.clients, pairs.client[i]);
	int fd[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	struct client *more = clients_add(&pairs.clients, fd[0], 1000);
	check(&pairs, "lllll");
	clients_remove(&pairs.clients, more);
	clients_remove(&pairs.clients, NULL);
	close(fd[0]);
	close(fd[1]);
	close_pairs(&pairs);
}

HT_SUITE("unit/analyzer/clients")
