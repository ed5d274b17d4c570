/* SPDX-License-Identifier: Apache-2.0
 *
 * Size, colours and characters of what the output goes to.
 */
#include "analyzer/ui/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

/* Returns a terminal of this size; `ret_main` gets its other end. */
static FILE *make_terminal(unsigned short columns, unsigned short rows, int *ret_main)
{
	const struct winsize size = {.ws_col = columns, .ws_row = rows};
	char name[64];
	*ret_main = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(*ret_main, 0);
	ck_assert_int_eq(grantpt(*ret_main) | unlockpt(*ret_main), 0);
	ck_assert_int_eq(ptsname_r(*ret_main, name, sizeof(name)), 0);
	int fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ioctl(fd, TIOCSWINSZ, &size), 0);
	return fdopen(fd, "w");
}

static void set(const char *name, const char *value)
{
	ck_assert_int_eq(value ? setenv(name, value, true) : unsetenv(name), 0);
}

HT_TEST(a_terminal_has_its_own_size)
{
	int other;
	FILE *out = make_terminal(132, 50, &other);
	set("COLUMNS", "60");
	struct terminal terminal = terminal_of(out, TERMINAL_COLOR_AUTO);
	ck_assert(terminal.is_terminal);
	ck_assert_uint_eq(terminal.columns, 132);
	ck_assert_uint_eq(terminal.rows, 50);
	fclose(out);
	close(other);
}

HT_TEST(a_terminal_without_a_size)
{
	int other;
	FILE *out = make_terminal(0, 0, &other);
	set("COLUMNS", NULL);
	struct terminal terminal = terminal_of(out, TERMINAL_COLOR_AUTO);
	ck_assert_uint_eq(terminal.columns, 80);
	ck_assert_uint_eq(terminal.rows, 24);
	fclose(out);
	close(other);
}

HT_TEST(columns_without_a_terminal)
{
	static const struct {
		const char *variable;
		unsigned columns;
	} table[] = {
		{NULL, 80},
		{"", 80},
		{"120", 120},
		{"0", 80},
		{"-5", 80},
		{"12x", 80},
		{"1", 20},
		{"100000", 1000},
		{"99999999999999999999999", 1000},
		{"4294967296", 1000},
	};
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		set("COLUMNS", table[i].variable);
		struct terminal terminal = terminal_of(out, TERMINAL_COLOR_AUTO);
		ck_assert(!terminal.is_terminal);
		ck_assert_msg(terminal.columns == table[i].columns, "%s: %u", table[i].variable,
			terminal.columns);
	}
	fclose(out);
	free(text);
}

HT_TEST(colours)
{
	static const struct {
		const char *no_color, *force, *term;
		enum terminal_color color;
		bool on_terminal, elsewhere;
	} table[] = {
		{NULL, NULL, "xterm", TERMINAL_COLOR_AUTO, true, false},
		{NULL, NULL, "dumb", TERMINAL_COLOR_AUTO, false, false},
		{NULL, NULL, NULL, TERMINAL_COLOR_AUTO, false, false},
		{"1", NULL, "xterm", TERMINAL_COLOR_AUTO, false, false},
		{"", NULL, "xterm", TERMINAL_COLOR_AUTO, true, false},
		{NULL, "1", "dumb", TERMINAL_COLOR_AUTO, true, true},
		{NULL, "0", "xterm", TERMINAL_COLOR_AUTO, true, false},
		{"1", "1", "xterm", TERMINAL_COLOR_AUTO, false, false},
		{"1", NULL, "dumb", TERMINAL_COLOR_ALWAYS, true, true},
		{NULL, "1", "xterm", TERMINAL_COLOR_NEVER, false, false},
	};
	int other;
	FILE *out = make_terminal(80, 24, &other), *file = fopen("/dev/null", "we");
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		set("NO_COLOR", table[i].no_color);
		set("CLICOLOR_FORCE", table[i].force);
		set("TERM", table[i].term);
		ck_assert_msg(terminal_of(out, table[i].color).has_colour == table[i].on_terminal,
			"row %zu on a terminal", i);
		ck_assert_msg(terminal_of(file, table[i].color).has_colour == table[i].elsewhere,
			"row %zu elsewhere", i);
	}
	fclose(out);
	fclose(file);
	close(other);
}

HT_TEST(characters_by_the_locale)
{
	static const struct {
		const char *all, *ctype, *lang;
		bool has_utf8;
	} table[] = {
		{NULL, NULL, NULL, false},
		{NULL, NULL, "C", false},
		{NULL, NULL, "C.UTF-8", true},
		{NULL, NULL, "de_DE.utf8", true},
		{NULL, "de_DE.ISO-8859-1", "C.UTF-8", false},
		{"", "", "C.UTF-8", true},
		{"POSIX", "C.UTF-8", "C.UTF-8", false},
		{"en_US.UTF-8", NULL, "C", true},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		set("LC_ALL", table[i].all);
		set("LC_CTYPE", table[i].ctype);
		set("LANG", table[i].lang);
		ck_assert_msg(
			terminal_of(stdout, TERMINAL_COLOR_AUTO).has_utf8 == table[i].has_utf8,
			"row %zu", i);
	}
}

HT_SUITE("analyzer/terminal")
