/* SPDX-License-Identifier: Apache-2.0
 *
 * A window as the request that an endpoint takes: what the spool keeps and curl sends.
 *
 * As a file: the line "heaptap-push 1 KEY", the line of the content type, the line of path and
 * query that follow the address, then the body up to the end.
 */
#pragma once

#include "analyzer/push/address.h"
#include "analyzer/push/rows.h"

#define PUSH_LINE_BYTES 2048u

/* The head of such a file. */
struct push_head {
	char key[PUSH_KEY_BYTES];
	char type[PUSH_LINE_BYTES], target[PUSH_LINE_BYTES];
};

/* Pyroscope gets the profile as multipart form data (POST /ingest), ClickHouse rows (INSERT). */
HT_MUST_CHECK
struct ht_err *push_request_write(
	FILE *out, const struct push_address *address, const struct push_window *window);
/* Reads the head from the descriptor, which then stands at the body. False: the file is no such
 * request. */
bool push_request_read(int fd, struct push_head *ret);
