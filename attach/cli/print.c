/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "attach/cli/systemlog.h"
#include "format/foreign.h"

/* larger than any message, with two paths in it */
#define TEXT_BYTES 16384u

/* In systemd's journal a message of heaptap is a warning: sd-daemon(3). A line without the
 * program's name is a result. */
static const char *level_of(const FILE *out, const char *line)
{
	static const char name[] = "heaptap: ";
	bool is_message = out == stderr && strncmp(line, name, sizeof(name) - 1) == 0;
	return is_message && systemlog_is_stderr() ? "<4>" : "";
}

void print_text(FILE *out, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	/* Newlines come from the format; everything between them may come from the target. */
	for (char *line = text; *line;) {
		char *end = strchr(line, '\n'), *next = end ? end + 1 : line + strlen(line);
		if (end)
			*end = '\0';
		foreign_copy(line, strlen(line) + 1, line);
		fputs(level_of(out, line), out);
		fputs(line, out);
		if (end)
			fputc('\n', out);
		line = next;
	}
}

const char *print_plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

const char *print_size(uint64_t bytes, char ret[PRINT_SIZE_BYTES])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes / 1024;
	size_t unit = 0;

	if (bytes < 1024) {
		snprintf(ret, PRINT_SIZE_BYTES, "%u byte%s", (unsigned)bytes, print_plural(bytes));
		return ret;
	}
	for (; value >= 1024 && unit + 1 < HT_ARRAY_SIZE(units); unit++)
		value /= 1024;
	snprintf(ret, PRINT_SIZE_BYTES, "%.1f %s", value, units[unit]);
	return ret;
}

json_t *print_string(const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = malloc(bytes);
	if (!copy)
		return NULL;
	foreign_copy(copy, bytes, text);
	json_t *string = json_string(copy);
	free(copy);
	return string;
}

struct ht_err *print_json(json_t *object)
{
	char *text = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
	json_decref(object);
	if (!text)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the JSON object");
	puts(text);
	free(text);
	return NULL;
}
