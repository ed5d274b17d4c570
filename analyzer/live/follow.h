/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows a running capture: asks for its status twice a second, passes requests on, and reads its
 * growing trace. Prints nothing: the caller waits with poll, and reads the state after each turn.
 */
#pragma once

#include <poll.h>

#include "analyzer/live/capture.h"
#include "format/err.h"

#define FOLLOW_ASKED_MAX 16u

struct follow_config {
	struct capture *capture; /* open; borrowed */
	/* Reads about `most` more bytes of the capture's trace; `*ret_read`: bytes read so far. */
	struct ht_err *(*read_on)(
		void *context, uint64_t most, bool *ret_has_more, uint64_t *ret_read);
	void *context;
};

struct follow;

/* The function to call when the capture has answered a request; NULL: none. `problem`: why the
 * request failed; NULL: it succeeded, and `follow->last` is the answer. */
struct follow_asked {
	void (*answered)(void *context, const struct follow *follow, const char *problem);
	void *context;
};

struct follow {
	struct follow_config config;
	struct control_reply last; /* the capture's last answer */
	bool is_steered;	   /* the keeper answers */
	uint64_t read;		   /* bytes of the trace that are read */
	bool has_more;		   /* the trace may have bytes that were not read yet */
	struct follow_asked asked[FOLLOW_ASKED_MAX];
	size_t asked_count;
	uint64_t next_ns; /* when the capture is asked again; CLOCK_MONOTONIC */
};

void follow_init(struct follow *follow, const struct follow_config *config);
/* "recording", "paused", "detaching", "naming" or "ended". */
const char *follow_state(const struct follow *follow);
/* Sends a request; the answer comes in a later turn. False: the keeper has ended, or too many
 * requests wait (FOLLOW_ASKED_MAX). */
bool follow_ask(struct follow *follow, const struct control_request *request,
	const struct follow_asked *asked);
/* Fills in the descriptor that follow_turn needs; returns the longest time to poll in ms. */
int follow_poll(const struct follow *follow, struct pollfd *polled);
/* Call after poll. True: the keeper has answered or ended, so state or figures of the capture may
 * have changed. */
bool follow_turn(struct follow *follow, const struct pollfd *polled);
/* Calls `answered` with `problem` for all requests that still wait. */
void follow_end(struct follow *follow, const char *problem);
