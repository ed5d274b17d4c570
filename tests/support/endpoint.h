/* SPDX-License-Identifier: Apache-2.0
 *
 * An HTTP server that answers requests one after the other, or fails in the way that the test sets.
 * The server dies with the test.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

#define ENDPOINT_REQUESTS_MAX 64u
#define ENDPOINT_TEXT_BYTES   512u
#define ENDPOINT_BODY_BYTES   (1u << 20)

enum endpoint_mood {
	ENDPOINT_AWAY = 1,  /* connections are refused */
	ENDPOINT_HANGS = 2, /* it does not answer before the mood changes or the client closes */
			    /* any other value: the HTTP status that it answers with */
};

struct endpoint_request {
	char target[ENDPOINT_TEXT_BYTES], key[64], authorization[64];
	int status; /* of the answer */
	size_t body_bytes;
};

/* Shared with the process that serves. */
struct endpoint_shared {
	volatile int mood;
	volatile bool listens;
	volatile unsigned count;
	struct endpoint_request request[ENDPOINT_REQUESTS_MAX];
	uint8_t body[ENDPOINT_BODY_BYTES]; /* of the last request */
};

struct endpoint {
	pid_t pid;
	uint16_t port;
	struct endpoint_shared *shared;
};

void endpoint_start(struct endpoint *endpoint);
/* Returns when `mood` is in force. ENDPOINT_AWAY is possible only until another mood is set. */
void endpoint_set(struct endpoint *endpoint, int mood);
void endpoint_stop(struct endpoint *endpoint);
