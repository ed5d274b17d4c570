/* SPDX-License-Identifier: Apache-2.0
 *
 * Display for a build without ncursesw: only batch mode works.
 */
#include "analyzer/top/display.h"

bool display_is_built(void)
{
	return false;
}

struct ht_err *display_check(void)
{
	return display_open();
}

struct ht_err *display_open(void)
{
	return ht_err_new(HT_ERR_REFUSED,
		"the interactive top is not in this build: run apt-get install libncurses-dev, "
		"then make; -b prints tables as text");
}

void display_close(void)
{
}

struct terminal display_size(void)
{
	return (struct terminal){0};
}

void display_show(const struct screen_lines *lines)
{
	(void)lines;
}

uint32_t display_key(void)
{
	return 0;
}

void display_suspend(void)
{
}

void display_resume(void)
{
}
