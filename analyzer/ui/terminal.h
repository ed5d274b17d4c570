/* SPDX-License-Identifier: Apache-2.0
 *
 * Properties of the output: size, whether it has colours, and whether it shows UTF-8.
 */
#pragma once

#include <stdio.h>

#include "format/base.h"

#define TERMINAL_COLUMNS     80u /* for output that is not a terminal */
#define TERMINAL_ROWS	     24u
#define TERMINAL_COLUMNS_MIN 20u
#define TERMINAL_COLUMNS_MAX 1000u

/* The words of --color, in their order. */
enum terminal_color { TERMINAL_COLOR_AUTO, TERMINAL_COLOR_ALWAYS, TERMINAL_COLOR_NEVER };

struct terminal {
	bool is_terminal;
	bool has_colour;
	bool has_utf8;
	unsigned columns; /* TERMINAL_COLUMNS_MIN to TERMINAL_COLUMNS_MAX */
	unsigned rows;	  /* 1 or more */
};

/*
 * Describes the file that `out` writes to; a stream in memory is not a terminal. columns: of the
 * terminal, else COLUMNS, else 80. has_colour: as `color` says; TERMINAL_COLOR_AUTO: no if NO_COLOR
 * is set and not empty, else yes if CLICOLOR_FORCE is set and neither empty nor 0, else yes on a
 * terminal whose TERM is set and not dumb. has_utf8: by the first of LC_ALL, LC_CTYPE and LANG that
 * is set and not empty.
 */
struct terminal terminal_of(FILE *out, enum terminal_color color);
