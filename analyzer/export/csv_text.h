/* SPDX-License-Identifier: Apache-2.0
 *
 * Text as a field of comma-separated values (RFC 4180).
 */
#pragma once

#include <stdio.h>

/* Writes a quoted field; NULL is an empty one. Spreadsheets treat a field that begins with = + - or
 * @ as a formula: such a text gets an apostrophe in front. Control characters become spaces. */
void csv_put_text(FILE *out, const char *text);
