/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/request.h"

#include <stdlib.h>
#include <string.h>

static int hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	digit |= 0x20;
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Decodes `text` in place. */
static struct ht_err *decode(char *text)
{
	char *to = text;
	for (const char *at = text; *at; at++) {
		char byte = *at;
		if (byte == '%') {
			int high = hex_digit(at[1]), low = high < 0 ? -1 : hex_digit(at[2]);
			if (low < 0)
				return ht_err_new(HT_ERR_USAGE, "%% in an address must be %%25");
			byte = (char)(high << 4 | low);
			at += 2;
		}
		if ((unsigned char)byte < 0x20 || byte == 0x7f)
			return ht_err_new(
				HT_ERR_USAGE, "an address cannot have control characters");
		*to++ = byte;
	}
	*to = '\0';
	return NULL;
}

static struct ht_err *take_parameter(struct request *request, char *text)
{
	char *value = strchr(text, '=');
	if (!*text)
		return NULL;
	if (request->count == REQUEST_PARAMETERS_MAX)
		return ht_err_new(HT_ERR_USAGE, "a request takes %u parameters at most",
			REQUEST_PARAMETERS_MAX);
	if (value)
		*value++ = '\0';
	struct ht_err *err = decode(text);
	if (!err && value)
		err = decode(value);
	if (!err)
		request->parameter[request->count++] =
			(struct request_parameter){text, value ? value : ""};
	return err;
}

static struct ht_err *take(struct request *request)
{
	char *rest = strchr(request->text, '?');
	if (rest)
		*rest++ = '\0';
	if (request->text[0] != '/')
		return ht_err_new(HT_ERR_USAGE, "the address of a request begins with /");
	request->path = request->text;
	struct ht_err *err = decode(request->text);
	while (rest && !err)
		err = take_parameter(request, strsep(&rest, "&"));
	return err;
}

struct ht_err *request_parse(const char *target, struct request *ret)
{
	*ret = (struct request){0};
	if (strlen(target) > REQUEST_BYTES_MAX)
		return ht_err_new(HT_ERR_USAGE, "the address of a request has %u bytes at most",
			REQUEST_BYTES_MAX);
	ret->text = strdup(target);
	if (!ret->text)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for a request");
	struct ht_err *err = take(ret);
	if (err)
		request_deinit(ret);
	return err;
}

void request_deinit(struct request *request)
{
	free(request->text);
	*request = (struct request){0};
}

const char *request_value(const struct request *request, const char *name)
{
	for (size_t i = request->count; i > 0; i--)
		if (strcmp(request->parameter[i - 1].name, name) == 0)
			return request->parameter[i - 1].value;
	return NULL;
}

struct ht_err *request_index(const struct request *request, const char *name, size_t count,
	size_t otherwise, size_t *ret)
{
	const char *text = request_value(request, name);
	size_t number = 0;
	*ret = otherwise;
	if (!text && otherwise < count)
		return NULL;
	for (const char *at = text; at && *at && number < count; at++)
		number = *at >= '0' && *at <= '9' ? number * 10 + (size_t)(*at - '0') : count;
	if (!text || !*text || number >= count)
		return ht_err_new(HT_ERR_USAGE, "%s=%.40s: there %s %zu trace%s, from 0 on", name,
			text ? text : "", count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
	*ret = number;
	return NULL;
}
