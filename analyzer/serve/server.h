/* SPDX-License-Identifier: Apache-2.0
 *
 * The server of serve.h from within: its sockets, its connections, and the jobs of requests. One
 * thread does it all, so that a fork of it is whole.
 */
#pragma once

#include "analyzer/serve/exchange.h"
#include "analyzer/serve/follow.h"

#define SERVER_DAEMONS	   2u  /* 127.0.0.1 and ::1 */
#define SERVER_JOBS_MAX	   3u  /* running jobs */
#define SERVER_WAITING_MAX 64u /* waiting exchanges */

struct server {
	const struct serve_config *config;
	struct access access;
	struct clients clients;
	struct MHD_Daemon *daemon[SERVER_DAEMONS];
	size_t daemon_count;
	int signals;
	struct exchange *first; /* exchanges with a job, running or waiting */
	uint32_t running, running_heavy, waiting;
	struct follow follow; /* used if config has a capture */
	bool has_ended;
};

/* Suspends the request until its job is done; false: too many wait. */
bool server_enqueue(struct server *server, struct exchange *exchange);
