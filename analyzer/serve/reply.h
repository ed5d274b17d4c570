/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends answers through libmicrohttpd, with the headers that every answer has.
 */
#pragma once

#include <microhttpd.h>

#include "format/err.h"

#define REPLY_ETAG_BYTES 40u

/* An error as {"schema":"heaptap.error/1","error":...}. */
enum MHD_Result reply_error(
	struct MHD_Connection *connection, unsigned status, const char *message);
/* As reply_error for the error of a command; its code decides the status. Frees `err`. */
enum MHD_Result reply_failure(struct MHD_Connection *connection, struct ht_err *err);
/* Sends an HTML page, which must exist until the server ends; `policy`: its
 * Content-Security-Policy. */
enum MHD_Result reply_page(struct MHD_Connection *connection, const char *page, const char *policy);
/* Sends a whole file, and closes `fd` also after an error. `etag` NULL: no ETag. `name`: file name
 * for saving, or NULL. */
enum MHD_Result reply_file(struct MHD_Connection *connection, int fd, const char *type,
	const char *etag, const char *name);
enum MHD_Result reply_unchanged(struct MHD_Connection *connection, const char *etag);
/* Sets the type of an answer. Any type but HTML also gets a policy that forbids the browser to run
 * it as a page. */
void reply_type(struct MHD_Response *response, const char *type);
/* Adds the headers of every answer, sends it and destroys it. */
enum MHD_Result reply_send(
	struct MHD_Connection *connection, unsigned status, struct MHD_Response *response);
