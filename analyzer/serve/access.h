/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which requests are answered. Any page in the same browser and any program on this
 * machine can send one. Only requests with the token are answered, and only if their headers Host
 * and Origin (if there is one) name this server.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

#define ACCESS_TOKEN_BYTES 32u /* hexadecimal digits: 128 bits */

struct access {
	uint16_t port;
	char token[ACCESS_TOKEN_BYTES + 1];
};

/* Identity of a request; NULL: no such header or parameter. */
struct access_claim {
	const char *host, *origin;
	const char *header;    /* the token, as header X-Heaptap-Token */
	const char *parameter; /* the token, as parameter of the address */
	bool changes;	       /* POST: the token must be in the header */
};

/* A new token for a server on `port`. */
HT_MUST_CHECK
struct ht_err *access_init(struct access *access, uint16_t port);
/* Checks a request. HT_ERR_PERMISSION: refuse it. Host must be 127.0.0.1, localhost or [::1] with
 * the port, so that a foreign name that resolves to this machine (DNS rebinding) is refused;
 * Origin, if given, must be one of these too. Tokens are compared in constant time. */
HT_MUST_CHECK
struct ht_err *access_check(const struct access *access, const struct access_claim *claim);
