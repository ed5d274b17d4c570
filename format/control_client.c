/* SPDX-License-Identifier: Apache-2.0 */
#include "format/control_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "format/array.h"
#include "format/clock.h"

#define CLIENTS_MAX 10000u

#define QUEUE_PATIENCE_NS (5 * CLOCK_NS_PER_S)
#define QUEUE_PAUSE_NS	  2000000
#define MEANWHILE_MS	  500

static size_t places(char (*ret)[CONTROL_PATH_MAX])
{
	return control_directories(geteuid(), getenv("XDG_RUNTIME_DIR"), ret);
}

/* --- find ----------------------------------------------------------------------------------- */

struct ht_err *control_client_add(const char *path, uid_t user, struct control_clients *ret)
{
	struct ht_err *err = NULL;
	int place = control_open_directory(path, user, false);
	int fd = place < 0 ? -1 : openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place >= 0)
		close(place);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	if (!directory) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	for (struct dirent *entry;
		!err && ret->count < CLIENTS_MAX && (entry = readdir(directory)) != NULL;) {
		struct control_client client = {.user = user};
		snprintf(client.directory, sizeof(client.directory), "%s", path);
		if (!control_name_parse(
			    entry->d_name, &client.pid, &client.start_ticks, &client.waiter))
			continue;
		err = ARRAY_RESERVE(ret->client, ret->capacity, ret->count + 1, "captures");
		if (!err)
			ret->client[ret->count++] = client;
	}
	closedir(directory);
	return err;
}

static int by_pid(const void *a, const void *b)
{
	const struct control_client *first = a, *second = b;
	if (first->pid != second->pid)
		return first->pid < second->pid ? -1 : 1;
	if (first->start_ticks != second->start_ticks)
		return first->start_ticks < second->start_ticks ? -1 : 1;
	return (first->waiter > second->waiter) - (first->waiter < second->waiter);
}

/* Adds the sockets in the directories `parent`/`before`UID`after` of all users but root. */
static struct ht_err *add_users(
	const char *parent, const char *before, const char *after, struct control_clients *ret)
{
	struct ht_err *err = NULL;
	DIR *directory = opendir(parent);
	const struct dirent *entry;
	while (directory && !err && (entry = readdir(directory)) != NULL) {
		char path[CONTROL_PATH_MAX], *end;
		size_t length = strlen(before);
		if (strncmp(entry->d_name, before, length) != 0)
			continue;
		unsigned long user = strtoul(entry->d_name + length, &end, 10);
		if (*end || !user || user >= UINT32_MAX)
			continue;
		snprintf(path, sizeof(path), "%s/%s%lu%s", parent, before, user, after);
		err = control_client_add(path, (uid_t)user, ret);
	}
	if (directory)
		closedir(directory);
	return err;
}

struct ht_err *control_client_list(struct control_clients *ret)
{
	char path[CONTROL_PLACES][CONTROL_PATH_MAX];
	struct ht_err *err = NULL;
	size_t count = places(path);
	*ret = (struct control_clients){0};
	for (size_t i = 0; !err && i < count; i++)
		err = control_client_add(path[i], geteuid(), ret);
	/* Root controls captures of all users. */
	if (!err && geteuid() == 0)
		err = add_users("/run/user", "", "/heaptap", ret);
	if (!err && geteuid() == 0)
		err = add_users("/tmp", "heaptap-", "", ret);
	if (err)
		control_clients_deinit(ret);
	else if (ret->count)
		qsort(ret->client, ret->count, sizeof(*ret->client), by_pid);
	return err;
}

void control_clients_deinit(struct control_clients *clients)
{
	free(clients->client);
	*clients = (struct control_clients){0};
}

/* --- ask ------------------------------------------------------------------------------------ */

/* Returns a descriptor, or -1 with errno. A socket address holds at most 108 bytes and the
 * directory's path may be longer, so connect goes through the directory's descriptor. */
static int connect_to(const struct control_client *client)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char name[CONTROL_NAME_MAX];
	int place = control_open_directory(client->directory, client->user, false);
	if (place < 0)
		return -1;
	control_name(client->pid, client->start_ticks, client->waiter, name);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", place, name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		int saved = errno;
		close(fd);
		fd = -1;
		errno = saved;
	}
	int saved = errno;
	close(place);
	errno = saved;
	return fd;
}

/* As connect_to. Retries while the queue of connections is full; a capture empties it every few
 * milliseconds. */
static int connect_soon(const struct control_client *client, uint64_t timeout_ns)
{
	uint64_t end_ns = clock_mono_ns() + (timeout_ns ? timeout_ns : QUEUE_PATIENCE_NS);
	int fd = connect_to(client);
	while (fd < 0 && errno == EAGAIN && clock_mono_ns() < end_ns) {
		const struct timespec pause = {.tv_nsec = QUEUE_PAUSE_NS};
		nanosleep(&pause, NULL);
		fd = connect_to(client);
	}
	return fd;
}

/* The directory is private to one user, but a socket of another user may have been moved into it.
 */
static struct ht_err *check_peer(const struct control_client *client, int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
		return ht_err_sys(
			errno, "cannot tell who serves the socket of process %d", (int)client->pid);
	if (peer.uid == client->user || peer.uid == 0)
		return NULL;
	return ht_err_new(HT_ERR_PERMISSION,
		"the socket of process %d in %s belongs to user %u, who could answer anything",
		(int)client->pid, client->directory, (unsigned)peer.uid);
}

/* Milliseconds left, for poll(2), at most a minute; 0: the time is over; -1: `end_ns` is 0, no
 * limit.
 */
static int left_ms(uint64_t end_ns)
{
	uint64_t now = clock_mono_ns();
	if (!end_ns)
		return -1;
	uint64_t left = now < end_ns ? (end_ns - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS : 0;
	return left > 60000 ? 60000 : (int)left;
}

enum step { STEP_DONE, STEP_LATE, STEP_CLOSED };

/* The end of a wait, and a function to call meanwhile, or NULL. */
struct patience {
	uint64_t end_ns; /* 0: for ever */
	void (*meanwhile)(void *context);
	void *context;
};

static enum step await(int fd, short events, const struct patience *patience)
{
	for (;;) {
		int wait_ms = patience->meanwhile ? MEANWHILE_MS : left_ms(patience->end_ns);
		struct pollfd pollfd = {.fd = fd, .events = events};
		int ready = poll(&pollfd, 1, wait_ms);
		if (ready > 0)
			return STEP_DONE;
		if (ready < 0 && errno != EINTR)
			return STEP_CLOSED;
		if (ready == 0 && patience->meanwhile)
			patience->meanwhile(patience->context);
		if (ready == 0 && left_ms(patience->end_ns) == 0)
			return STEP_LATE;
	}
}

static enum step send_line(int fd, const char *line, size_t length, const struct patience *patience)
{
	enum step step = STEP_DONE;
	for (size_t sent = 0; step == STEP_DONE && sent < length;) {
		ssize_t put = send(fd, line + sent, length - sent, MSG_NOSIGNAL);
		if (put > 0)
			sent += (size_t)put;
		else if (put < 0 && errno == EAGAIN)
			step = await(fd, POLLOUT, patience);
		else if (put == 0 || errno != EINTR)
			step = STEP_CLOSED;
	}
	return step;
}

/* Receives one line; `*ret_length` excludes the newline. */
static enum step receive_line(
	int fd, char line[CONTROL_LINE_MAX], size_t *ret_length, const struct patience *patience)
{
	size_t length = 0;
	for (;;) {
		ssize_t got = recv(fd, line + length, CONTROL_LINE_MAX - length, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN) {
			enum step step = await(fd, POLLIN, patience);
			if (step != STEP_DONE)
				return step;
			continue;
		}
		if (got <= 0)
			return STEP_CLOSED;
		const char *end = memchr(line + length, '\n', (size_t)got);
		length += (size_t)got;
		*ret_length = end ? (size_t)(end - line) : length;
		if (end || length == CONTROL_LINE_MAX)
			return STEP_DONE;
	}
}

static struct ht_err *exchange(const struct control_client *client, int fd,
	const struct control_request *request, const struct patience *patience,
	enum control_client_state *ret_state, struct control_reply *ret)
{
	char line[CONTROL_LINE_MAX];
	size_t length = control_request_encode(request, line);
	HT_TRY(check_peer(client, fd));
	/* A server that refuses the connection answers before it reads the request. */
	if (send_line(fd, line, length, patience) == STEP_LATE) {
		*ret_state = CONTROL_CLIENT_SILENT;
		return NULL;
	}
	enum step step = receive_line(fd, line, &length, patience);
	*ret_state = step == STEP_DONE	 ? CONTROL_CLIENT_ANSWERED
		     : step == STEP_LATE ? CONTROL_CLIENT_SILENT
					 : CONTROL_CLIENT_DIED;
	const char *problem = step == STEP_DONE ? control_reply_parse(line, length, ret) : NULL;
	if (!problem)
		return NULL;
	return ht_err_new(HT_ERR_FORMAT, "cannot understand the capture of process %d: %s",
		(int)client->pid, problem);
}

static struct ht_err *ask(const struct control_client *client,
	const struct control_request *request, uint64_t timeout_ns, struct patience *patience,
	enum control_client_state *ret_state, struct control_reply *ret)
{
	memset(ret, 0, sizeof(*ret));
	*ret_state = CONTROL_CLIENT_STALE;
	int fd = connect_soon(client, timeout_ns);
	if (fd < 0 && errno == EAGAIN)
		*ret_state = CONTROL_CLIENT_SILENT;
	if (fd < 0 && (errno == EAGAIN || errno == ECONNREFUSED || errno == ENOENT))
		return NULL;
	if (fd < 0)
		return ht_err_sys(
			errno, "cannot reach the capture of process %d", (int)client->pid);
	patience->end_ns = timeout_ns ? clock_mono_ns() + timeout_ns : 0;
	struct ht_err *err = exchange(client, fd, request, patience, ret_state, ret);
	close(fd);
	return err;
}

struct ht_err *control_client_ask(const struct control_client *client,
	const struct control_request *request, uint64_t timeout_ns,
	enum control_client_state *ret_state, struct control_reply *ret)
{
	struct patience patience = {0};
	return ask(client, request, timeout_ns, &patience, ret_state, ret);
}

struct ht_err *control_client_await(const struct control_client *client,
	const struct control_request *request, void (*meanwhile)(void *context), void *context,
	enum control_client_state *ret_state, struct control_reply *ret)
{
	struct patience patience = {.meanwhile = meanwhile, .context = context};
	return ask(client, request, 0, &patience, ret_state, ret);
}

/* --- one ------------------------------------------------------------------------------------ */

/* Whether the heaptap that made the socket was killed. control_client_ask reports other errors. */
static bool is_stale(const struct control_client *client)
{
	int fd = connect_to(client);
	bool stale = fd < 0 && (errno == ECONNREFUSED || errno == ENOENT);
	if (fd >= 0)
		close(fd);
	return stale;
}

static struct ht_err *explain_none(pid_t pid, bool was_killed)
{
	char path[CONTROL_PLACES][CONTROL_PATH_MAX], all[CONTROL_PLACES * (CONTROL_PATH_MAX + 2)];
	size_t count = places(path), length = 0;
	if (was_killed)
		return ht_err_new(HT_ERR_REFUSED,
			"no capture of process %d is running: its heaptap was killed; 'heaptap "
			"verify -p %d' says whether the process is clean",
			(int)pid, (int)pid);
	for (size_t i = 0; i < count; i++)
		length += (size_t)snprintf(
			all + length, sizeof(all) - length, "%s%s", i ? ", " : "", path[i]);
	return ht_err_new(HT_ERR_REFUSED, "no capture of process %d is running (none in %s); %s",
		(int)pid, all,
		geteuid() ? "a capture that root or another user has started is visible to them "
			    "only"
			  : "a capture that another user, or a heaptap in a container, has "
			    "started is visible there only");
}

static struct ht_err *find(pid_t pid, bool takes_waiting, struct control_client *ret)
{
	struct control_clients all;
	bool found = false, was_killed = false;
	HT_TRY(control_client_list(&all));
	for (size_t i = 0; i < all.count && !found; i++) {
		if (all.client[i].pid != pid || (all.client[i].waiter && !takes_waiting))
			continue;
		found = !is_stale(&all.client[i]);
		/* Do not report a killed heaptap that only waited: it changed nothing in the
		 * target. */
		was_killed |= !found && !all.client[i].waiter;
		*ret = all.client[i];
	}
	control_clients_deinit(&all);
	return found ? NULL : explain_none(pid, was_killed);
}

struct ht_err *control_client_find(pid_t pid, struct control_client *ret)
{
	return find(pid, false, ret);
}

struct ht_err *control_client_find_any(pid_t pid, struct control_client *ret)
{
	return find(pid, true, ret);
}
