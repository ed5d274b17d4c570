/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/push/address.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_BYTES  2048u
#define NAME_BYTES_MAX 64u

static const struct {
	const char *prefix;
	enum push_kind kind;
} scheme[] = {
	{"pyroscope+", PUSH_PYROSCOPE},
	{"clickhouse+", PUSH_CLICKHOUSE},
};

static struct ht_err *no_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "out of memory for an address");
}

static struct ht_err *refuse(const char *why)
{
	return ht_err_new(HT_ERR_USAGE,
		"push: %s: pyroscope+http://HOST:4040 or clickhouse+http://HOST:8123, or @FILE "
		"with "
		"such a line",
		why);
}

/* Whether a name is safe in an SQL statement: database and table become part of one. */
static bool is_name(const char *text, size_t length)
{
	if (!length || length > NAME_BYTES_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_' && text[i] != '-')
			return false;
	return true;
}

/* Sets the member that `text` ("NAME=VALUE") names. */
static struct ht_err *apply(struct push_address *address, const char *text, size_t length)
{
	const struct {
		const char *name;
		enum push_kind kind;
		char **value;
	} known[] = {
		{"tenant=", PUSH_PYROSCOPE, &address->tenant},
		{"database=", PUSH_CLICKHOUSE, &address->database},
		{"table=", PUSH_CLICKHOUSE, &address->table},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(known); i++) {
		const size_t name = strlen(known[i].name);
		if (known[i].kind != address->kind || length < name ||
			memcmp(text, known[i].name, name) != 0)
			continue;
		if (!is_name(text + name, length - name))
			return refuse("a name has letters, digits, _ and - only");
		free(*known[i].value);
		*known[i].value = strndup(text + name, length - name);
		return *known[i].value ? NULL : no_memory();
	}
	return refuse(address->kind == PUSH_PYROSCOPE
			      ? "the only parameter of a Pyroscope address is tenant="
			      : "a ClickHouse address has the parameters database= and table=");
}

static struct ht_err *apply_all(struct push_address *address, const char *query)
{
	struct ht_err *err = NULL;
	while (*query && !err) {
		const size_t length = strcspn(query, "&");
		err = apply(address, query, length);
		query += length + (query[length] == '&');
	}
	if (!err && address->kind == PUSH_CLICKHOUSE) {
		if (!address->database)
			address->database = strdup("default");
		if (!address->table)
			address->table = strdup("heaptap");
		if (!address->database || !address->table)
			err = no_memory();
	}
	return err;
}

/* Checks scheme and host of a URL. Refuses spaces and control characters, because curl's
 * configuration would take them as ends of lines. */
static struct ht_err *check(const char *text)
{
	const char *host;
	if (strncmp(text, "http://", 7) == 0)
		host = text + 7;
	else if (strncmp(text, "https://", 8) == 0)
		host = text + 8;
	else
		return refuse("an address begins with pyroscope+http, clickhouse+http or the same "
			      "with https");
	for (const char *at = text; *at; at++)
		if (!isgraph((unsigned char)*at))
			return refuse("an address has no spaces and control characters");
	const char *at = strrchr(host, '@');
	if (!*host || strchr("/?#", *(at ? at + 1 : host)))
		return refuse("the address has no host");
	return NULL;
}

static struct ht_err *parse(const char *text, struct push_address *ret)
{
	size_t kind = 0;
	while (kind < HT_ARRAY_SIZE(scheme) &&
		strncmp(text, scheme[kind].prefix, strlen(scheme[kind].prefix)) != 0)
		kind++;
	if (kind == HT_ARRAY_SIZE(scheme))
		return refuse("an address begins with pyroscope+http, clickhouse+http or the same "
			      "with https");
	ret->kind = scheme[kind].kind;
	const char *http = text + strlen(scheme[kind].prefix);
	HT_TRY(check(http));
	const char *host = strstr(http, "//") + 2;
	size_t length = strcspn(http, "?#");
	const char *query = http[length] == '?' ? http + length + 1 : "";
	while (length && http[length - 1] == '/')
		length--;
	/* Take the last @: a password may contain one, a host name cannot. */
	const char *user_end = host;
	for (const char *at = host; at < http + length && *at != '/'; at++)
		if (*at == '@')
			user_end = at + 1;
	ret->url = strndup(http, length);
	HT_TRY(ret->url ? apply_all(ret, query) : no_memory());
	const int scheme_length = (int)(host - text), host_length = (int)(http + length - user_end);
	if (asprintf(&ret->shown, "%.*s%.*s%s%s%s%s", scheme_length, text, host_length, user_end,
		    ret->tenant	    ? "?tenant="
		    : ret->database ? "?database="
				    : "",
		    ret->tenant	    ? ret->tenant
		    : ret->database ? ret->database
				    : "",
		    ret->table ? "&table=" : "", ret->table ? ret->table : "") < 0)
		ret->shown = NULL;
	return ret->shown ? NULL : no_memory();
}

static struct ht_err *read_line(const char *path, char line[ADDRESS_BYTES])
{
	FILE *file = fopen(path, "re");
	if (!file)
		return ht_err_sys(errno, "push: cannot open %s", path);
	const bool is_read = fgets(line, ADDRESS_BYTES, file) != NULL;
	fclose(file);
	line[is_read ? strcspn(line, "\r\n") : 0] = '\0';
	return NULL;
}

struct ht_err *push_address_parse(const char *text, struct push_address *ret)
{
	char line[ADDRESS_BYTES];
	*ret = (struct push_address){0};
	struct ht_err *err = *text == '@' ? read_line(text + 1, line) : NULL;
	if (!err && *text != '@' && strlen(text) >= sizeof(line))
		err = refuse("the address is too long");
	HT_THEN(err, parse(*text == '@' ? line : text, ret));
	explicit_bzero(line, sizeof(line));
	if (err)
		push_address_deinit(ret);
	return err;
}

void push_address_deinit(struct push_address *address)
{
	if (address->url)
		explicit_bzero(address->url, strlen(address->url));
	free(address->url);
	free(address->shown);
	free(address->tenant);
	free(address->database);
	free(address->table);
	*address = (struct push_address){0};
}
