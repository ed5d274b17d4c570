/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides for each event, in order, whether it is written or only counted. Blocks begin and end as
 * in the analyzer's replay (analyzer/model/replay.h); the held events of a block that ends early
 * are removed.
 */
#pragma once

#include "format/cull/delay.h"

/* A streams_sink; `context` is the struct cull. */
HT_MUST_CHECK
struct ht_err *decide_take(void *context, uint32_t stream, const struct event *event, size_t count);
