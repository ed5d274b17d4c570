/* SPDX-License-Identifier: Apache-2.0 */
#include "format/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char nomem_message[] = "out of memory";
static struct ht_err nomem = {.code = HT_ERR_NOMEM, .message = nomem_message};

static struct ht_err *err_from(enum ht_err_code code, int sys, char *message)
{
	if (!message)
		return &nomem;
	struct ht_err *err = malloc(sizeof(*err));
	if (!err) {
		free(message);
		return &nomem;
	}
	*err = (struct ht_err){.code = code, .sys = sys, .message = message};
	return err;
}

static HT_PRINTF(1, 0) char *format_message(const char *fmt, va_list args)
{
	char *message = NULL;
	return vasprintf(&message, fmt, args) < 0 ? NULL : message;
}

struct ht_err *ht_err_new(enum ht_err_code code, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	char *message = format_message(fmt, args);
	va_end(args);
	return err_from(code, 0, message);
}

struct ht_err *ht_err_sys(int sys, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	char *what = format_message(fmt, args);
	va_end(args);
	char *message = NULL;
	if (what && asprintf(&message, "%s: %s", what, strerror(sys)) < 0)
		message = NULL;
	free(what);
	return err_from(HT_ERR_SYS, sys, message);
}

struct ht_err *ht_err_wrap(struct ht_err *err, const char *fmt, ...)
{
	if (!err || err == &nomem)
		return err;
	va_list args;
	va_start(args, fmt);
	char *context = format_message(fmt, args);
	va_end(args);
	char *message = NULL;
	if (context && asprintf(&message, "%s: %s", context, err->message) < 0)
		message = NULL;
	free(context);
	if (message) {
		free(err->message);
		err->message = message;
	}
	return err;
}

void ht_err_free(struct ht_err *err)
{
	if (!err || err == &nomem)
		return;
	free(err->message);
	free(err);
}

bool ht_err_drop(struct ht_err *err)
{
	bool was_error = err != NULL;
	ht_err_free(err);
	return was_error;
}

struct ht_err *ht_err_first(struct ht_err *first, struct ht_err *second)
{
	if (!first)
		return second;
	ht_err_free(second);
	return first;
}
