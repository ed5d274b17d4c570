/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes the events of one slot's stream (abi_event.h). Input is hostile.
 */
#pragma once

#include "format/abi_event.h"
#include "format/bytes.h"

/* Zero-initialised: out of step, until event_decoder_restart(). */
struct event_decoder {
	uint64_t tsc;
	uint64_t addr;
	uint64_t recent[ABI_RECENT_COUNT];
	uint32_t tid;
	uint32_t level;
	bool has_thread; /* a THREAD event was read since the restart */
	bool in_step;	 /* false: the state is lost, so no event can be decoded before a restart;
			    the caller clears it when pieces are missing */
	unsigned words;	 /* words read so far of an unfinished mapping event */
	uint64_t word[ABI_WORDS];
};

struct event {
	uint8_t kind;	 /* enum abi_event_kind, never THREAD: the decoder consumes it */
	uint8_t hook;	 /* enum abi_hook, or a newer one: 0 .. 15 */
	uint8_t protect; /* mapping: PROT_* */
	uint32_t tid;
	uint64_t tsc; /* never decreases within a buffer, except for mappings */
	uint64_t addr;
	uint64_t size;
	uint32_t stack;
	uint32_t flags;
}; /* hook, addr and size are 0 for REALLOC_FREED and REALLOC_FAIL. Only ALLOC, REALLOC_END and
      MAPPING have a stack. A mapping's hook is an enum abi_mapping_call or a newer value. */

/* Whether the event is one of those that REC_COUNTER_EVENTS counts. */
static inline bool event_is_counted(const struct event *event)
{
	return event->kind != ABI_EVENT_MAPPING;
}

/* Resets the delta state: the next event is at a buffer start. */
void event_decoder_restart(struct event_decoder *decoder);

enum event_result { EVENT_OK, EVENT_NONE_LEFT, EVENT_MALFORMED };

/* Takes the next event off `in`. MALFORMED: the rest of the piece is lost (`in` is then empty) and
 * in_step is false. A decoder that is out of step returns MALFORMED for any piece. */
HT_MUST_CHECK
enum event_result event_next(struct event_decoder *decoder, struct bytes *in, struct event *ret);

/* Decodes the bytes at `at`, where ABI_EVENT_MAX_BYTES must be readable. Returns the length of the
 * event in bytes; 0: malformed. `*ret_whole` is false, and `ret` unset, if these bytes only set
 * state for later events (THREAD) or are part of a mapping event. */
HT_MUST_CHECK
size_t event_step(
	struct event_decoder *decoder, const uint8_t *at, struct event *ret, bool *ret_whole);
