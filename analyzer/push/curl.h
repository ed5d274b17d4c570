/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends one request by the program curl, which has this machine's certificates and proxies. A
 * library would not do: heaptap-analyze is also linked statically (scripts/release), and Debian has
 * no archives of what libcurl needs.
 */
#pragma once

#include "analyzer/push/address.h"
#include "analyzer/push/request.h"

enum push_result {
	PUSH_TAKEN,
	PUSH_REFUSED, /* this window, for what it is: others may be taken */
	PUSH_AWAY,    /* none would be taken now */
};

#define PUSH_WHY_BYTES 256u

struct push_answer {
	enum push_result result;
	char why[PUSH_WHY_BYTES]; /* it was not taken; without user and password */
};

/* Sends the body at which `fd` stands; takes `timeout_ns` at most. The endpoint gets the key as
 * Idempotency-Key. HT_ERR_SYS where curl is missing. */
HT_MUST_CHECK
struct ht_err *push_curl_send(const struct push_address *address, const struct push_head *head,
	int fd, uint64_t timeout_ns, struct push_answer *ret);
