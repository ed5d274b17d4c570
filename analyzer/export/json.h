/* SPDX-License-Identifier: Apache-2.0
 *
 * Building JSON values. A value that is NULL means that memory is out; it is passed on, so that
 * only the whole is looked at.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "format/base.h"
#include "format/err.h"

/* An integer; INT64_MAX where the value is larger. */
json_t *json_number(uint64_t value);
json_t *json_number_or_null(bool known, uint64_t value);
json_t *json_signed_or_null(bool known, int64_t value);
/* JSON strings are UTF-8: where `bytes` is not, its bytes beyond ASCII become question marks. NULL
 * is null. */
json_t *json_text(const char *bytes);
/* Sets one more member; takes both values over. */
json_t *json_with(json_t *object, const char *name, json_t *value);
/* Appends one element; takes both values over. */
json_t *json_plus(json_t *array, json_t *value);

/* Writes one object, member by member. */
struct json_writer {
	FILE *out;
	bool began;
	const char *const *only; /* names of members, ended by NULL; NULL: all */
	FILE *whole, *none;	 /* with `only`: `out` is one of them, none being what is lost */
};

/* Only these members are written from now on; json_restore undoes it. */
HT_MUST_CHECK
struct ht_err *json_restrict(struct json_writer *writer, const char *const *only);
void json_restore(struct json_writer *writer);

/* The name of the next member; its value follows. */
void json_begin_member(struct json_writer *writer, const char *name);
/* Writes `value`, and takes it over. */
HT_MUST_CHECK
struct ht_err *json_write(struct json_writer *writer, json_t *value);
HT_MUST_CHECK
struct ht_err *json_put(struct json_writer *writer, const char *name, json_t *value);
