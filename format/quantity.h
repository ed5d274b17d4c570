/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses times and sizes as a person types them: a number, possibly with a fraction, and a unit.
 */
#pragma once

#include "format/base.h"

/* "30s", "0.5s", "1.5h", "250ms", "1h30m"; a bare number is seconds. More than 0, at most 10 years.
 * Returns NULL, or a static message that names the fault. */
const char *quantity_duration(const char *text, uint64_t *ret_ns);
#define QUANTITY_TEXT_BYTES 32u
/* As a person would type it: "1 h", "90 s", "2.5 s", "250 ms". Returns `ret`. */
const char *quantity_duration_text(uint64_t ns, char ret[QUANTITY_TEXT_BYTES]);
/* "4096", "512K", "64k", "512KiB", "1.5M", "1G"; at most 1 TiB. Returns NULL, or a static message
 * that names the fault. */
const char *quantity_size(const char *text, uint64_t *ret_bytes);
