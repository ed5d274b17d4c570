/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides for each event, in order, whether it is written or only counted: the analyzer's replay
 * (analyzer/model/replay.h), with blocks that may be taken out again.
 */
#pragma once

#include "format/cull/delay.h"

/* A streams_sink; `context` is the struct cull. */
HT_MUST_CHECK
struct ht_err *decide_take(void *context, uint32_t stream, const struct event *event, size_t count);
