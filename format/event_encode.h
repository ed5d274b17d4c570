/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes events (abi_event.h) for a trace that is written from another one. Each piece starts with
 * a restart, so it can be decoded without the pieces before it.
 */
#pragma once

#include "format/bytes.h"
#include "format/event.h"

struct event_encoder {
	struct bytes_out out;
	uint64_t tsc, addr;
	uint64_t recent[ABI_RECENT_COUNT];
};

void event_encoder_deinit(struct event_encoder *encoder);
/* Empties `out` and begins a piece. */
void event_encoder_begin(struct event_encoder *encoder);
HT_MUST_CHECK
struct ht_err *event_encoder_thread(struct event_encoder *encoder, uint32_t tid, uint32_t level);
/* Appends an event as a decoder returns it. Its thread is that of the last event_encoder_thread,
 * with nesting level `level`. */
HT_MUST_CHECK
struct ht_err *event_encoder_put(
	struct event_encoder *encoder, const struct event *event, uint32_t level);
