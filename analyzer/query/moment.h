/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses a moment of a trace as users write it: +10s or 10s since the start, -5s before the end,
 * 14:03 or 14:03:10 by the clock, or the text of a mark.
 */
#pragma once

#include "analyzer/model/model.h"

/* `*ret`: nanoseconds since the start of the trace. `utc`: a clock time is in UTC, otherwise in
 * local time. HT_ERR_USAGE names `option` and the accepted forms. */
HT_MUST_CHECK
struct ht_err *moment_parse(
	const char *option, const char *text, const struct model *model, bool utc, uint64_t *ret);
