/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds JSON values. NULL means out of memory. Functions pass NULL on, so callers check only the
 * final value.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "format/base.h"
#include "format/err.h"

/* An integer; INT64_MAX if the value is larger. */
json_t *json_number(uint64_t value);
json_t *json_number_or_null(bool known, uint64_t value);
json_t *json_signed_or_null(bool known, int64_t value);
/* A JSON string, which must be UTF-8: if `bytes` is not, its bytes beyond ASCII become question
 * marks. NULL becomes null. */
json_t *json_text(const char *bytes);
/* Sets a member; takes ownership of both values. */
json_t *json_with(json_t *object, const char *name, json_t *value);
/* Appends an element; takes ownership of both values. */
json_t *json_plus(json_t *array, json_t *value);

/* Writes one object, member by member; the caller writes the closing brace. */
struct json_writer {
	FILE *out;
	bool began;		 /* a member is written */
	bool has_element;	 /* an element of the current array is written */
	const char *const *only; /* names of members, ended by NULL; NULL: all */
	FILE *whole, *none; /* with `only`: `out` is `whole` for members that are written, otherwise
			       `none`, which discards them */
};

/* Makes the writer discard all members except these (NULL: it discards none); json_restore ends
 * that. */
HT_MUST_CHECK
struct ht_err *json_restrict(struct json_writer *writer, const char *const *only);
void json_restore(struct json_writer *writer);

/* Writes the name of a member; the caller writes its value. */
void json_begin_member(struct json_writer *writer, const char *name);
/* Writes `value` and takes ownership of it. NULL gives HT_ERR_NOMEM. */
HT_MUST_CHECK
struct ht_err *json_write(struct json_writer *writer, json_t *value);
HT_MUST_CHECK
struct ht_err *json_put(struct json_writer *writer, const char *name, json_t *value);
/* Writes a member that is an array: its name, then its elements, each in a line, then its end.
 * json_put_element takes ownership of `value`. */
void json_begin_array(struct json_writer *writer, const char *name);
HT_MUST_CHECK
struct ht_err *json_put_element(struct json_writer *writer, json_t *value);
void json_end_array(struct json_writer *writer);
