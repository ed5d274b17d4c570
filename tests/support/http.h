/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts `heaptap serve`, and sends requests to it.
 */
#pragma once

#include <jansson.h>

#include "tests/support/run.h"

struct http {
	struct run run;
	char address[256]; /* as the server printed it */
	char token[64];
	uint16_t port;
};

/* Starts `heaptap serve WORDS` and waits for its address. False: this build has no server; prints
 * that the test is skipped. */
bool http_start(struct http *http, const char *const words[]);
/* Sends SIGINT; returns the server's exit status. */
int http_stop(struct http *http);

/* A connection; -1: refused. */
int http_connect(const struct http *http);
/* Sends `request` unchanged on a new connection. Returns what the server sends until it closes the
 * connection, malloc'd and NUL-terminated; `ret_length` (unless NULL): its length. */
char *http_send(const struct http *http, const char *request, size_t *ret_length);
/* Sends GET `path` with the right Host and token. Returns the body, malloc'd. Fails the test unless
 * the answer's status is `status`. */
char *http_get(const struct http *http, const char *path, unsigned status);
/* Like http_get; parses the body as JSON, which must have a schema. */
json_t *http_json(const struct http *http, const char *path, unsigned status);
/* Like http_json, but sends POST. */
json_t *http_post(const struct http *http, const char *path, unsigned status);
/* The status of an HTTP answer; 0: `answer` is not one. */
unsigned http_status(const char *answer);
/* Are chromium, chromedriver and selenium installed? If not, prints that the check is skipped. */
bool http_has_browser(void);
