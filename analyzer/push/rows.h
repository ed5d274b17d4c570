/* SPDX-License-Identifier: Apache-2.0
 *
 * A window as rows of a table, one a site: ClickHouse's format JSONEachRow, as scripts/fleet.sql
 * has the columns.
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/view.h"

#define PUSH_KEY_BYTES 33u /* 32 hexadecimal digits and a NUL */

/* What tells a window of one process from all others. */
struct push_window {
	const struct view *view;
	const char *host, *service;
	const char *build;	  /* build-id of the executable; "": none */
	uint64_t begin_s, end_s;  /* since the epoch; end_s > begin_s */
	char key[PUSH_KEY_BYTES]; /* the same each time the same window is pushed */
};

/* `host` and `service` are borrowed, NULL: this machine's name, the process's. */
void push_window_init(
	struct push_window *window, const struct view *view, const char *host, const char *service);

/* Sites beyond this number, those with least outstanding, are one row "(others)": sums stay whole.
 */
#define PUSH_ROWS_MAX 4096u
HT_MUST_CHECK
struct ht_err *push_rows_write(FILE *out, const struct push_window *window);

/* FNV-1a, 64 bits; begin with PUSH_HASH_BEGIN. Equal on all machines. */
#define PUSH_HASH_BEGIN 0xcbf29ce484222325u
uint64_t push_hash(uint64_t hash, const void *data, size_t length);
