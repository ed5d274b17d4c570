/* SPDX-License-Identifier: Apache-2.0
 *
 * A window as table rows, one per site, in ClickHouse's format JSONEachRow, with the columns of
 * scripts/fleet.sql.
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/view.h"

#define PUSH_KEY_BYTES 33u /* 32 hexadecimal digits and a NUL */

/* The identity of a window: process, host, service and time. */
struct push_window {
	const struct view *view;
	const char *host, *service;
	const char *build;	  /* build-id of the executable; "": none */
	uint64_t begin_s, end_s;  /* since the epoch; end_s > begin_s */
	char key[PUSH_KEY_BYTES]; /* identifies the window; the same if the window is pushed again
				   */
};

/* Borrows `view`, `host` and `service`. `host` NULL: this machine's name; `service` NULL: the name
 * of the process. */
void push_window_init(
	struct push_window *window, const struct view *view, const char *host, const char *service);

/* Most rows of single sites. Further sites, those with least outstanding bytes, are one more row,
 * "(others)", so that sums stay complete. */
#define PUSH_ROWS_MAX 4096u
HT_MUST_CHECK
struct ht_err *push_rows_write(FILE *out, const struct push_window *window);
