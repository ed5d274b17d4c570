/* SPDX-License-Identifier: Apache-2.0
 *
 * From events in order to what is written and what is counted: the analyzer's replay
 * (analyzer/model/replay.h), with blocks that may be taken out again.
 */
#pragma once

#include "format/cull/delay.h"

/* A streams_sink; `context` is the struct cull. */
HT_MUST_CHECK
struct ht_err *calls_take(void *context, uint32_t stream, const struct event *event, size_t count);
