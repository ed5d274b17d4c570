/* SPDX-License-Identifier: Apache-2.0
 *
 * Output on the terminal and as JSON. Text that comes from the target passes format/foreign.h, so
 * that it cannot control the terminal.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "format/base.h"
#include "format/err.h"

/* As fprintf, but without control characters in the lines, and with a level for systemd's journal.
 * Use it for every message, and for every text that may come from the target. */
HT_PRINTF(2, 3) void print_text(FILE *out, const char *fmt, ...);
/* "s" unless `count` is 1. */
const char *print_plural(uint64_t count);
/* Writes "512 bytes" or "2.3 MiB" to `ret`, and returns `ret`. */
#define PRINT_SIZE_BYTES 24u
const char *print_size(uint64_t bytes, char ret[PRINT_SIZE_BYTES]);
/* Makes a JSON string. NULL: no memory. */
json_t *print_string(const char *text);
/* Prints `object`, which it takes over, on standard output. `object` NULL: HT_ERR_NOMEM. */
HT_MUST_CHECK
struct ht_err *print_json(json_t *object);
