/* SPDX-License-Identifier: Apache-2.0
 *
 * A window as an HTTP request for an endpoint, in a file that the spool keeps and curl sends.
 *
 * The file has the line "heaptap-push 1 KEY", a line with the content type, a line with path and
 * query to append to the address, then the body.
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
/* Reads the head and leaves the descriptor's position at the body. False: the file is no such
 * request. */
bool push_request_read(int fd, struct push_head *ret);
