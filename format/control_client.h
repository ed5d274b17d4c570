/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the running captures of this user, or for root of all users, and asks one of
 * them (control.h). What is at the other end of a socket may be hostile: every wait is bounded, and
 * so is every answer.
 */
#pragma once

#include "format/control.h"

/* A socket that was found. */
struct control_client {
	char directory[CONTROL_PATH_MAX];
	uid_t user; /* whose directory that is */
	pid_t pid;  /* of the process that is recorded */
	uint64_t start_ticks;
};

struct control_clients {
	struct control_client *client; /* owned */
	size_t count;
};

/* All sockets that are there, by pid; heaptap may have been killed without removing its own
 * (control_client_ask). At most 10,000. */
HT_MUST_CHECK
struct ht_err *control_client_list(struct control_clients *ret);
/* As control_client_list, in one directory of `user`, whose sockets are added to those of `ret`. */
HT_MUST_CHECK
struct ht_err *control_client_add(const char *path, uid_t user, struct control_clients *ret);
void control_clients_deinit(struct control_clients *clients);

/* The capture of process `pid` that runs now. HT_ERR_REFUSED: there is none, with the directories
 * that were looked into, and whether a heaptap was killed. */
HT_MUST_CHECK
struct ht_err *control_client_find(pid_t pid, struct control_client *ret);

/* A client whose capture did not answer. */
enum control_client_state {
	CONTROL_CLIENT_ANSWERED, /* `reply` is set, also where it is an error */
	CONTROL_CLIENT_STALE,	 /* heaptap was killed, and left its socket */
	CONTROL_CLIENT_SILENT,	 /* no answer within `timeout_ns` */
	CONTROL_CLIENT_DIED,	 /* the connection ended without an answer */
};

/* Sends the request and waits `timeout_ns` at most for the answer; 0: until it comes, or the
 * capture dies. HT_ERR_FORMAT: what it answered is no answer; HT_ERR_PERMISSION: the socket is
 * another user's. */
HT_MUST_CHECK
struct ht_err *control_client_ask(const struct control_client *client,
	const struct control_request *request, uint64_t timeout_ns,
	enum control_client_state *ret_state, struct control_reply *ret);
/* As control_client_ask, until the answer comes, or the capture dies. `meanwhile` is called twice a
 * second. */
HT_MUST_CHECK
struct ht_err *control_client_await(const struct control_client *client,
	const struct control_request *request, void (*meanwhile)(void *context), void *context,
	enum control_client_state *ret_state, struct control_reply *ret);
