/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of one stream written anew, with other times, addresses and threads. Each piece starts
 * with a restart, so that none needs the one before.
 */
#pragma once

#include "format/bytes.h"
#include "format/event.h"

struct anonymous_events {
	struct bytes_out out;
	uint64_t tsc, addr;
	uint64_t recent[ABI_RECENT_COUNT];
};

void anonymous_events_deinit(struct anonymous_events *events);
/* Empties `out` and begins a piece. */
void anonymous_events_begin(struct anonymous_events *events);
HT_MUST_CHECK
struct ht_err *anonymous_events_thread(
	struct anonymous_events *events, uint32_t tid, uint32_t level);
/* An event as a decoder gives it; its thread is that of the last anonymous_events_thread, which
 * has `level`. */
HT_MUST_CHECK
struct ht_err *anonymous_events_put(
	struct anonymous_events *events, const struct event *event, uint32_t level);
