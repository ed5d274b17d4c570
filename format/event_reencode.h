/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes events (abi_event.h) for a trace that is written from another one. Each piece starts with
 * a restart, so it can be decoded without the pieces before it.
 */
#pragma once

#include "format/bytes.h"
#include "format/event.h"

struct event_reencoder {
	struct bytes_out out;
	uint64_t tsc, addr;
	uint64_t recent[ABI_RECENT_COUNT];
};

void event_reencoder_deinit(struct event_reencoder *encoder);
/* Empties `out` and begins a piece. */
void event_reencoder_begin(struct event_reencoder *encoder);
HT_MUST_CHECK
struct ht_err *event_reencoder_thread(
	struct event_reencoder *encoder, uint32_t tid, uint32_t level);
/* Appends an event as a decoder returns it. The last event_reencoder_thread must have been for
 * event->tid and `level`, its nesting level, because a mapping ends with the same THREAD event. */
HT_MUST_CHECK
struct ht_err *event_reencoder_put(
	struct event_reencoder *encoder, const struct event *event, uint32_t level);
