/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/array.h"

json_t *json_number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *json_number_or_null(bool known, uint64_t value)
{
	return known ? json_number(value) : json_null();
}

json_t *json_signed_or_null(bool known, int64_t value)
{
	return known ? json_integer(value) : json_null();
}

json_t *json_text(const char *bytes)
{
	if (!bytes)
		return json_null();
	json_t *value = json_string(bytes);
	if (value)
		return value;
	HT_FREED char *copy = strdup(bytes);
	if (!copy)
		return NULL;
	for (char *at = copy; *at; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	return json_string(copy);
}

json_t *json_with(json_t *object, const char *name, json_t *value)
{
	if (object && value && json_object_set_new(object, name, value) == 0)
		return object;
	if (!object)
		json_decref(value);
	json_decref(object);
	return NULL;
}

json_t *json_plus(json_t *array, json_t *value)
{
	if (array && json_array_append_new(array, value) == 0)
		return array;
	if (!array)
		json_decref(value);
	json_decref(array);
	return NULL;
}

struct ht_err *json_restrict(struct json_writer *writer, const char *const *only)
{
	if (!only)
		return NULL;
	writer->none = fopen("/dev/null", "we");
	if (!writer->none)
		return ht_err_sys(errno, "cannot open /dev/null");
	writer->whole = writer->out;
	writer->only = only;
	return NULL;
}

void json_restore(struct json_writer *writer)
{
	if (!writer->only)
		return;
	fclose(writer->none);
	writer->out = writer->whole;
	writer->only = NULL;
}

static bool is_wanted(const char *const *only, const char *name)
{
	while (*only && strcmp(*only, name) != 0)
		only++;
	return *only;
}

void json_begin_member(struct json_writer *writer, const char *name)
{
	if (writer->only && !is_wanted(writer->only, name)) {
		writer->out = writer->none;
		return;
	}
	if (writer->only)
		writer->out = writer->whole;
	fprintf(writer->out, "%s\"%s\":", writer->began ? ",\n" : "{", name);
	writer->began = true;
}

struct ht_err *json_write(struct json_writer *writer, json_t *value)
{
	if (!value)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the JSON output");
	int failed = json_dumpf(value, writer->out, JSON_COMPACT | JSON_ENCODE_ANY);
	json_decref(value);
	return failed ? ht_err_sys(errno, "cannot write the JSON output") : NULL;
}

struct ht_err *json_put(struct json_writer *writer, const char *name, json_t *value)
{
	json_begin_member(writer, name);
	return json_write(writer, value);
}

void json_begin_array(struct json_writer *writer, const char *name)
{
	json_begin_member(writer, name);
	putc('[', writer->out);
	writer->has_element = false;
}

struct ht_err *json_put_element(struct json_writer *writer, json_t *value)
{
	fputs(writer->has_element ? ",\n" : "\n", writer->out);
	writer->has_element = true;
	return json_write(writer, value);
}

void json_end_array(struct json_writer *writer)
{
	putc(']', writer->out);
}
