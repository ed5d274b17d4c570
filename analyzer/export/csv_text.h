/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of comma-separated values (RFC 4180).
 */
#pragma once

#include <stdio.h>

#include "analyzer/query/metric.h"

/* Writes a quoted field; NULL is an empty one. Spreadsheets treat a field that begins with = + - or
 * @ as a formula: such a text gets an apostrophe in front. Control characters become spaces. */
void csv_put_text(FILE *out, const char *text);
/* Writes a quoted field, `before` and `text`; control characters of `text` become spaces. */
void csv_put_quoted(FILE *out, const char *before, const char *text);
/* Writes the name of a metric's column: its name and its unit, as "peak_bytes". */
void csv_put_metric(FILE *out, enum metric metric);
