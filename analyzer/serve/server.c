/* SPDX-License-Identifier: Apache-2.0
 *
 * The server of serve.h: its sockets, its connections, and the loop. It has one thread, so that a
 * forked job can call any function.
 */
#include "analyzer/serve/serve.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "analyzer/serve/events.h"
#include "analyzer/serve/queue.h"
#include "format/clock.h"

#define TICK_MS		1000
#define CONNECTIONS_MAX 1000u
#define SPARE		64u  /* connections that may be open while the oldest ones are closed */
#define OWN_FDS		128u /* descriptors kept for files, jobs and so on */
#define IDLE_S		30u
#define HEADER_BYTES	(24u << 10)
#define BACKLOG		1024
#define DAEMONS_MAX	2u /* 127.0.0.1 and ::1 */

struct server {
	const struct serve_config *config;
	struct access access;
	struct clients clients;
	struct MHD_Daemon *daemon[DAEMONS_MAX];
	size_t daemon_count;
	int signals;
	struct queue queue;
	struct events events; /* used if config has a capture */
	bool has_ended;
};

bool serve_is_built(void)
{
	return true;
}

/* --- requests -------------------------------------------------------------------------------- */

static enum MHD_Result answer_by_job(struct server *server, struct exchange *exchange)
{
	if (exchange_is_known(exchange))
		return reply_unchanged(exchange->connection, exchange->etag);
	if (queue_add(&server->queue, exchange))
		return MHD_YES;
	return reply_error(exchange->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
		"too many requests wait already; try again");
}

static enum MHD_Result begin(struct server *server, struct exchange *exchange, const char *method)
{
	const struct serve_config *config = server->config;
	enum MHD_Result refused;
	if (!exchange_read(exchange, method, &refused))
		return refused;
	switch (exchange->route->kind) {
	case ROUTE_PAGE:
		return reply_page(exchange->connection, config->page, config->policy);
	case ROUTE_DATA:
	case ROUTE_COMMAND:
	case ROUTE_TRACES:
		return answer_by_job(server, exchange);
	case ROUTE_EVENTS:
		if (config->live)
			return events_listen(&server->events, exchange);
		break;
	case ROUTE_CONTROL:
		if (config->live)
			return events_control(&server->events, exchange);
		break;
	}
	return reply_error(exchange->connection, MHD_HTTP_NOT_FOUND,
		"no capture runs: these traces were given as files");
}

/* --- libmicrohttpd --------------------------------------------------------------------------- */

static void *take_target(void *context, const char *target, struct MHD_Connection *connection)
{
	const struct server *server = context;
	return exchange_create(server->config, &server->access, connection, target);
}

static struct client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info ? info->socket_context : NULL;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *data, size_t *data_size,
	void **request)
{
	struct server *server = context;
	struct exchange *exchange = *request;
	(void)url;
	(void)version;
	(void)data;
	if (!exchange)
		return MHD_NO;
	if (exchange->state == EXCHANGE_DONE)
		return exchange_end(exchange);
	/* libmicrohttpd calls twice, the second time after a body. An answer in the first call
	 * closes the connection: only a POST, whose body is not wanted, is answered there. */
	const bool is_first = exchange->state == EXCHANGE_NEW;
	exchange->state = EXCHANGE_HEARD;
	if (is_first && strcmp(method, MHD_HTTP_METHOD_POST) != 0)
		return MHD_YES;
	if (*data_size)
		return MHD_NO;
	clients_asked(&server->clients, client_of(connection));
	return begin(server, exchange, method);
}

static void completed(void *context, struct MHD_Connection *connection, void **request,
	enum MHD_RequestTerminationCode how)
{
	struct server *server = context;
	(void)how;
	if (*request)
		exchange_destroy(*request);
	*request = NULL;
	clients_answered(&server->clients, client_of(connection), clock_mono_ns());
}

static void connected(void *context, struct MHD_Connection *connection, void **client,
	enum MHD_ConnectionNotificationCode what)
{
	struct server *server = context;
	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		clients_remove(&server->clients, *client);
		*client = NULL;
		return;
	}
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	*client = info ? clients_add(&server->clients, info->connect_fd, clock_mono_ns()) : NULL;
}

static void ignore(void *context, const char *fmt, va_list args)
{
	(void)context;
	(void)fmt;
	(void)args;
}

/* --- sockets --------------------------------------------------------------------------------- */

/* Returns a socket, or -1 with errno. */
static int listen_at(const struct sockaddr *address, socklen_t length)
{
	const int on = 1;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
		(address->sa_family != AF_INET6 ||
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
		bind(fd, address, length) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	const int why = errno;
	close(fd);
	errno = why;
	return -1;
}

static int listen_v4(uint16_t *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(*port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = listen_at((const struct sockaddr *)&address, length);
	if (fd >= 0 && getsockname(fd, (struct sockaddr *)&address, &length) == 0)
		*port = ntohs(address.sin_port);
	return fd;
}

static int listen_v6(uint16_t port)
{
	const struct sockaddr_in6 address = {.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	return listen_at((const struct sockaddr *)&address, sizeof(address));
}

/* Takes ownership of `fd`. */
static struct ht_err *add_daemon(struct server *server, int fd)
{
	const uint32_t most = server->clients.most + SPARE;
	struct MHD_Daemon *daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle,
		server, MHD_OPTION_EXTERNAL_LOGGER, ignore, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_URI_LOG_CALLBACK, take_target, server, MHD_OPTION_NOTIFY_COMPLETED,
		completed, server, MHD_OPTION_NOTIFY_CONNECTION, connected, server,
		MHD_OPTION_CONNECTION_LIMIT, most, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
		MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_END);
	if (!daemon) {
		close(fd);
		return ht_err_new(HT_ERR_SYS, "cannot start the server");
	}
	server->daemon[server->daemon_count++] = daemon;
	return NULL;
}

static struct ht_err *open_sockets(struct server *server)
{
	uint16_t port = server->config->port;
	int fd = listen_v4(&port);
	if (fd < 0 && errno == EADDRINUSE)
		return ht_err_new(HT_ERR_REFUSED,
			"port %u is in use; choose another with --port, or leave it out", port);
	if (fd < 0)
		return ht_err_sys(errno, "cannot listen on 127.0.0.1:%u", port);
	struct ht_err *err = access_init(&server->access, port);
	if (err) {
		close(fd);
		return err;
	}
	err = add_daemon(server, fd);
	/* Failing here is no error: the machine may have no IPv6. */
	fd = err ? -1 : listen_v6(port);
	return err || fd < 0 ? err : add_daemon(server, fd);
}

/* --- the loop -------------------------------------------------------------------------------- */

/* Most connections, so that OWN_FDS descriptors stay free. */
static uint32_t connections(void)
{
	struct rlimit limit;
	const rlim_t wanted = CONNECTIONS_MAX + SPARE + OWN_FDS;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 64;
	if (limit.rlim_cur < wanted) {
		limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur >= wanted)
		return CONNECTIONS_MAX;
	return limit.rlim_cur > 2 * (SPARE + OWN_FDS) ? (uint32_t)limit.rlim_cur - SPARE - OWN_FDS
						      : 16;
}

static struct ht_err *open_signals(struct server *server)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
		server->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return server->signals < 0 ? ht_err_sys(errno, "cannot wait for signals") : NULL;
}

static int timeout_ms(const struct server *server)
{
	unsigned long long ms, least = TICK_MS;
	for (size_t i = 0; i < server->daemon_count; i++)
		if (MHD_get_timeout(server->daemon[i], &ms) == MHD_YES && ms < least)
			least = ms;
	return (int)least;
}

static int epoll_of(struct MHD_Daemon *daemon)
{
	return MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

#define POLLED_MAX (1 + DAEMONS_MAX + EVENTS_POLLED + QUEUE_JOBS_MAX)

static void turn(struct server *server)
{
	struct pollfd polled[POLLED_MAX];
	size_t count = 0;
	int wait_ms = timeout_ms(server);
	polled[count++] = (struct pollfd){server->signals, POLLIN, 0};
	for (size_t i = 0; i < server->daemon_count; i++)
		polled[count++] = (struct pollfd){epoll_of(server->daemon[i]), POLLIN, 0};
	struct pollfd *events = polled + count;
	if (server->config->live) {
		const int live_ms = events_poll(&server->events, events);
		wait_ms = live_ms < wait_ms ? live_ms : wait_ms;
		count += EVENTS_POLLED;
	}
	struct pollfd *jobs = polled + count;
	count += queue_poll(&server->queue, jobs);
	if (poll(polled, count, wait_ms) < 0 && errno != EINTR)
		server->has_ended = true;
	server->has_ended |= polled[0].revents != 0;
	queue_turn(&server->queue, jobs);
	if (server->config->live)
		events_turn(&server->events, events);
	queue_start(&server->queue);
	for (size_t i = 0; i < server->daemon_count; i++)
		MHD_run(server->daemon[i]);
	queue_start(&server->queue);
	clients_end_slow(&server->clients, clock_mono_ns());
}

static struct ht_err *announce(struct server *server)
{
	char address[128];
	snprintf(address, sizeof(address), "http://127.0.0.1:%u/?token=%s", server->access.port,
		server->access.token);
	return server->config->ready(server->config->context, address, server->access.port);
}

struct ht_err *serve_run(const struct serve_config *config)
{
	struct server server = {.config = config, .signals = -1};
	clients_init(&server.clients, connections());
	struct ht_err *err = open_signals(&server);
	HT_THEN(err, open_sockets(&server));
	if (!err && config->live)
		err = events_init(&server.events, config);
	HT_THEN(err, announce(&server));
	while (!err && !server.has_ended)
		turn(&server);
	queue_end(&server.queue);
	if (config->live)
		events_end(&server.events);
	for (size_t i = 0; i < server.daemon_count; i++) {
		MHD_run(server.daemon[i]);
		MHD_stop_daemon(server.daemon[i]);
	}
	if (config->live)
		events_deinit(&server.events);
	if (server.signals >= 0)
		close(server.signals);
	return err;
}
