/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/display.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <termcap.h>

#define ESCAPE_MS 25 /* longest time between ESC and the rest of a key's sequence */
#define ESCAPE	  27
#define DELETE	  127
#define CTRL_H	  8

static SCREEN *opened;

bool display_is_built(void)
{
	return true;
}

/* If the user's locale has UTF-8 but is not installed, use C.UTF-8. */
static void set_locale(void)
{
	const struct terminal terminal = terminal_of(stdout, TERMINAL_COLOR_NEVER);
	if (!setlocale(LC_CTYPE, "") && terminal.has_utf8)
		setlocale(LC_CTYPE, "C.UTF-8");
}

static struct ht_err *unknown_terminal(void)
{
	const char *term = getenv("TERM");
	return ht_err_new(HT_ERR_REFUSED,
		"the terminal type \"%s\" is not known: set TERM, or use -b", term ? term : "");
}

struct ht_err *display_check(void)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return ht_err_new(HT_ERR_REFUSED,
			"top needs a terminal for keys and table; -b prints tables as text");
	const char *term = getenv("TERM");
	if (!term || tgetent(NULL, term) != 1)
		return unknown_terminal();
	return NULL;
}

/* Never runs: the caller reads SIGTSTP from a signalfd. */
static void take_nothing(int signal)
{
	(void)signal;
}

/* Without a handler of the program's own ncurses ignores SIGTSTP while it draws, and the kernel
 * then discards one that is pending: Ctrl-Z would be lost. */
static void keep_pending_stops(void)
{
	signal(SIGTSTP, take_nothing);
}

struct ht_err *display_open(void)
{
	set_locale();
	keep_pending_stops();
	opened = newterm(NULL, stdout, stdin);
	if (!opened)
		return unknown_terminal();
	set_term(opened);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	return NULL;
}

void display_close(void)
{
	if (!opened)
		return;
	endwin();
	delscreen(opened);
	opened = NULL;
}

struct terminal display_size(void)
{
	struct winsize size = {0};
	struct terminal ret = terminal_of(stdout, TERMINAL_COLOR_NEVER);
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col) {
		ret.rows = size.ws_row;
		ret.columns = size.ws_col;
	}
	if (ret.columns > TERMINAL_COLUMNS_MAX)
		ret.columns = TERMINAL_COLUMNS_MAX;
	if ((int)ret.rows != LINES || (int)ret.columns != COLS)
		resizeterm((int)ret.rows, (int)ret.columns);
	return ret;
}

static attr_t attribute_of(enum screen_style style)
{
	switch (style) {
	case SCREEN_BOLD:
	case SCREEN_WARNING:
		return A_BOLD;
	case SCREEN_DIM:
		return A_DIM;
	case SCREEN_REVERSE:
		return A_REVERSE;
	case SCREEN_PLAIN:
		break;
	}
	return A_NORMAL;
}

void display_show(const struct screen_lines *lines)
{
	int row = 0, column = 0;
	erase();
	for (size_t i = 0; i < lines->count && (int)i < LINES; i++) {
		attrset((int)attribute_of(lines->line[i].style));
		/* Fill the line before writing its text: after a text of the full width, the cursor
		 * stays on the last character. */
		if (lines->line[i].style == SCREEN_REVERSE)
			mvhline((int)i, 0, ' ' | A_REVERSE, COLS);
		mvaddstr((int)i, 0, lines->line[i].text);
		getyx(stdscr, row, column);
	}
	attrset(A_NORMAL);
	curs_set(lines->has_cursor);
	if (lines->has_cursor)
		move(row, column);
	refresh();
}

static uint32_t function_key(wint_t key)
{
	switch (key) {
	case KEY_UP:
		return SCREEN_UP;
	case KEY_DOWN:
		return SCREEN_DOWN;
	case KEY_LEFT:
		return SCREEN_LEFT;
	case KEY_RIGHT:
		return SCREEN_RIGHT;
	case KEY_PPAGE:
		return SCREEN_PAGE_UP;
	case KEY_NPAGE:
		return SCREEN_PAGE_DOWN;
	case KEY_HOME:
		return SCREEN_HOME;
	case KEY_END:
		return SCREEN_END;
	case KEY_ENTER:
		return SCREEN_ENTER;
	case KEY_BACKSPACE:
		return SCREEN_BACKSPACE;
	default:
		return SCREEN_BACKSPACE + 1;
	}
}

uint32_t display_key(void)
{
	wint_t key;
	const int kind = get_wch(&key);
	if (kind == KEY_CODE_YES)
		return function_key(key);
	if (kind == ERR)
		return 0;
	if (key == '\r' || key == '\n')
		return SCREEN_ENTER;
	if (key == ESCAPE)
		return SCREEN_ESCAPE;
	return key == DELETE || key == CTRL_H ? SCREEN_BACKSPACE : (uint32_t)key;
}

void display_suspend(void)
{
	def_prog_mode();
	endwin();
}

void display_resume(void)
{
	reset_prog_mode();
	clearok(stdscr, TRUE);
	refresh();
}
