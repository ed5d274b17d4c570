/* SPDX-License-Identifier: Apache-2.0
 *
 * A moment of a trace as a person writes it: +10s since the start, -5s before the end, 14:03:10 by
 * the clock, or the text of a mark.
 */
#pragma once

#include "analyzer/model/model.h"

/* Nanoseconds since the start of the trace. A usage error names `option`, and what it takes. */
HT_MUST_CHECK
struct ht_err *moment_parse(
	const char *option, const char *text, const struct model *model, bool utc, uint64_t *ret);
