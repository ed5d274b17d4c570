/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture while it runs: asks it twice a second how it goes on, passes requests on to it, and
 * reads on in its trace. Shows nothing itself: its owner waits with poll, and looks after each
 * turn.
 */
#pragma once

#include <poll.h>

#include "analyzer/live/capture.h"
#include "format/err.h"

#define FOLLOW_ASKED_MAX 16u

struct follow_config {
	struct capture *capture; /* open; borrowed */
	/* Reads about `most` more bytes of its trace; `*ret_read`: bytes read so far. */
	struct ht_err *(*read_on)(
		void *context, uint64_t most, bool *ret_has_more, uint64_t *ret_read);
	void *context;
};

struct follow;

/* What to call when the capture has answered a request; NULL: nothing. `problem`: why the request
 * failed; NULL: it did not, and `follow->last` is the answer. */
struct follow_asked {
	void (*answered)(void *context, const struct follow *follow, const char *problem);
	void *context;
};

struct follow {
	struct follow_config config;
	struct control_reply last; /* the capture's last answer */
	bool is_steered;	   /* the keeper answers */
	uint64_t read;		   /* bytes of the trace that are read */
	bool has_more;		   /* there may be more of the trace than was read */
	struct follow_asked asked[FOLLOW_ASKED_MAX];
	size_t asked_count;
	uint64_t next_ns; /* when the capture is asked again; CLOCK_MONOTONIC */
};

void follow_init(struct follow *follow, const struct follow_config *config);
/* "recording", "paused", "detaching", "naming" or "ended". */
const char *follow_state(const struct follow *follow);
/* Asks the capture; it answers in a later turn. False: it has ended, or too many requests wait. */
bool follow_ask(struct follow *follow, const struct control_request *request,
	const struct follow_asked *asked);
/* Fills in what follow_turn waits for, and returns for how many milliseconds at most. */
int follow_poll(const struct follow *follow, struct pollfd *polled);
/* Call after poll. True: the state or a figure of the capture may have changed. */
bool follow_turn(struct follow *follow, const struct pollfd *polled);
/* Tells those whose requests wait that there will be no answer, because of `problem`. */
void follow_end(struct follow *follow, const char *problem);
