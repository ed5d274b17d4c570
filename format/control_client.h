/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the running captures of this user, or for root of all users, and sends one of them a
 * request (control.h). The other end of a socket may be hostile: every wait and every answer is
 * bounded.
 */
#pragma once

#include "format/control.h"

/* A socket that was found. */
struct control_client {
	char directory[CONTROL_PATH_MAX];
	uid_t user; /* owner of the directory */
	pid_t pid;  /* of the process that is recorded */
	uint64_t start_ticks;
	pid_t waiter; /* the heaptap that waits to record it; 0: a capture */
};

struct control_clients {
	struct control_client *client; /* owned */
	size_t count, capacity;
};

/* Lists at most 10,000 sockets, sorted by pid, then by start_ticks; for one process, the capture
 * comes before heaptaps that wait. A socket may be stale: a killed heaptap does not remove its own
 * (control_client_ask). Skips directories that are missing or not safe. After an error, `ret` is
 * empty. */
HT_MUST_CHECK
struct ht_err *control_client_list(struct control_clients *ret);
/* As control_client_list, for one directory of `user`; adds its sockets to `ret`, unsorted. After
 * an error, `ret` keeps those added so far. */
HT_MUST_CHECK
struct ht_err *control_client_add(const char *path, uid_t user, struct control_clients *ret);
void control_clients_deinit(struct control_clients *clients);

/* Finds the running capture of process `pid`. HT_ERR_REFUSED: there is none; the message says that
 * its heaptap was killed, or names the directories searched. */
HT_MUST_CHECK
struct ht_err *control_client_find(pid_t pid, struct control_client *ret);
/* As control_client_find; without a capture, a heaptap that waits to record the process. */
HT_MUST_CHECK
struct ht_err *control_client_find_any(pid_t pid, struct control_client *ret);

enum control_client_state {
	CONTROL_CLIENT_ANSWERED, /* `reply` is set; it may be an error */
	CONTROL_CLIENT_STALE,  /* heaptap was killed and left its socket behind, or it has ended */
	CONTROL_CLIENT_SILENT, /* no connection or no answer in time */
	CONTROL_CLIENT_DIED,   /* the connection ended without an answer */
};

/* Sends the request. Waits at most `timeout_ns` for the connection and as long again for the
 * answer; 0: 5 s for the connection, then until the answer comes or the capture dies.
 * HT_ERR_FORMAT: the answer is malformed; HT_ERR_PERMISSION: the server is neither client->user nor
 * root; HT_ERR_SYS: the socket cannot be reached. */
HT_MUST_CHECK
struct ht_err *control_client_ask(const struct control_client *client,
	const struct control_request *request, uint64_t timeout_ns,
	enum control_client_state *ret_state, struct control_reply *ret);
/* As control_client_ask with timeout 0. Calls `meanwhile` twice a second while it waits for the
 * answer. */
HT_MUST_CHECK
struct ht_err *control_client_await(const struct control_client *client,
	const struct control_request *request, void (*meanwhile)(void *context), void *context,
	enum control_client_state *ret_state, struct control_reply *ret);
