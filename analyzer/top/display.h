/* SPDX-License-Identifier: Apache-2.0
 *
 * The terminal of the interactive table, by ncursesw: shows lines, returns keys, and restores the
 * terminal when it is closed or suspended.
 */
#pragma once

#include "analyzer/top/screen.h"

/* False if this program was built without ncursesw. */
bool display_is_built(void);
/* HT_ERR_REFUSED: there is no terminal, no description of its type, or no ncursesw in this build;
 * the message names -b. Shows nothing. */
HT_MUST_CHECK
struct ht_err *display_check(void);
HT_MUST_CHECK
struct ht_err *display_open(void);
void display_close(void);
/* The terminal's present size, to which it adapts the display. */
struct terminal display_size(void);
void display_show(const struct screen_lines *lines);
/* The next key that was pressed (enum screen_key, or a character); 0: none. Never waits. */
uint32_t display_key(void);
/* Gives the terminal back to the shell; display_resume takes it back and draws everything again. */
void display_suspend(void);
void display_resume(void);
