/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value ? value : "";
}

static bool has_colour(bool is_terminal, enum terminal_color color)
{
	const char *force = variable("CLICOLOR_FORCE"), *term = variable("TERM");
	if (color != TERMINAL_COLOR_AUTO)
		return color == TERMINAL_COLOR_ALWAYS;
	if (*variable("NO_COLOR"))
		return false;
	if (*force && strcmp(force, "0") != 0)
		return true;
	return is_terminal && *term && strcmp(term, "dumb") != 0;
}

/* Accepts names like C.UTF-8 and de_DE.utf8. The locale need not be installed: the terminal may
 * support UTF-8 without it. */
static bool has_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++) {
		const char *value = variable(names[i]);
		if (*value)
			return strcasestr(value, "UTF-8") || strcasestr(value, "UTF8");
	}
	return false;
}

static unsigned columns_of(unsigned columns)
{
	char *end;
	const char *variable_columns = variable("COLUMNS");
	if (columns == 0 && *variable_columns >= '0' && *variable_columns <= '9') {
		unsigned long value = strtoul(variable_columns, &end, 10);
		if (*end == '\0')
			columns = value < TERMINAL_COLUMNS_MAX ? (unsigned)value
							       : TERMINAL_COLUMNS_MAX;
	}
	if (columns == 0)
		return TERMINAL_COLUMNS;
	if (columns < TERMINAL_COLUMNS_MIN)
		return TERMINAL_COLUMNS_MIN;
	return columns < TERMINAL_COLUMNS_MAX ? columns : TERMINAL_COLUMNS_MAX;
}

struct terminal terminal_of(FILE *out, enum terminal_color color)
{
	int fd = fileno(out);
	bool is_terminal = fd >= 0 && isatty(fd);
	struct winsize size = {0};
	if (!is_terminal || ioctl(fd, TIOCGWINSZ, &size) != 0)
		size = (struct winsize){0};
	return (struct terminal){
		.is_terminal = is_terminal,
		.has_colour = has_colour(is_terminal, color),
		.has_utf8 = has_utf8(),
		.columns = columns_of(size.ws_col),
		.rows = size.ws_row ? size.ws_row : TERMINAL_ROWS,
	};
}
