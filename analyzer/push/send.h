/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends one request with the program curl, which knows this machine's certificates and proxies.
 * libcurl cannot be used: heaptap-analyze is also linked statically (scripts/release), and Debian
 * has no static versions of libcurl's dependencies.
 */
#pragma once

#include "analyzer/push/address.h"
#include "analyzer/push/request.h"

enum push_result {
	PUSH_TAKEN,
	PUSH_REFUSED, /* the endpoint refuses this window; it may accept others */
	PUSH_AWAY,    /* the endpoint accepts no window now */
};

#define PUSH_WHY_BYTES 256u

struct push_answer {
	enum push_result result;
	char why[PUSH_WHY_BYTES]; /* why the window was not accepted; without user and password */
};

/* Sends the body, from the position of `fd` to its end, within `timeout_ns`. The key is sent as
 * Idempotency-Key. HT_ERR_SYS if curl is missing or cannot be started; `ret` is then not set. */
HT_MUST_CHECK
struct ht_err *push_send(const struct push_address *address, const struct push_head *head, int fd,
	uint64_t timeout_ns, struct push_answer *ret);
