/* SPDX-License-Identifier: Apache-2.0
 *
 * The target of an HTTP request, "/path?name=value&...", as text. Its bytes are hostile; this file
 * only parses them.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

#define REQUEST_BYTES_MAX      8192u
#define REQUEST_PARAMETERS_MAX 64u

struct request_parameter {
	const char *name, *value; /* value: "" if there is no "=" */
};

struct request {
	char *text; /* owned; the other members point into it */
	const char *path;
	struct request_parameter parameter[REQUEST_PARAMETERS_MAX]; /* in their order */
	size_t count;
};

/* %XX is decoded in path, names and values; "+" stays "+", so that a time can be written from=+10s.
 * HT_ERR_USAGE: no "/" at the beginning, too long, bad %XX, a control character, too many
 * parameters. After an error `ret` is empty. */
HT_MUST_CHECK
struct ht_err *request_parse(const char *target, struct request *ret);
void request_deinit(struct request *request);
/* The value of the last parameter of that name; NULL: none. */
const char *request_value(const struct request *request, const char *name);
/* A parameter as a number below `count`; `otherwise` if the parameter is missing. HT_ERR_USAGE
 * names a parameter that is no such number, or that is missing while `otherwise` is not below
 * `count`. */
HT_MUST_CHECK
struct ht_err *request_index(const struct request *request, const char *name, size_t count,
	size_t otherwise, size_t *ret);
