/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes the events of one slot's stream (abi_event.h). Used by the analyzer, and by the daemon's
 * tests; hostile input.
 */
#pragma once

#include "format/abi_event.h"
#include "format/bytes.h"

/* Zero-initialised: at a buffer start. */
struct event_decoder {
	uint64_t tsc;
	uint64_t addr;
	uint32_t tid;
	uint32_t level;
	bool in_step; /* false after damage or a gap, until the next restart */
};

struct event {
	enum abi_event_kind kind; /* never THREAD: consumed by the decoder */
	uint8_t hook;		  /* enum abi_hook */
	uint32_t tid;
	uint64_t tsc;
	uint64_t addr;
	uint64_t size;
	uint32_t stack;
};

/* The stream continues at a buffer start. */
void event_decoder_restart(struct event_decoder *decoder);

enum event_result { EVENT_OK, EVENT_NONE_LEFT, EVENT_MALFORMED };

/* Takes the next event off `in`. MALFORMED: the rest of the piece is lost, in_step becomes false.
 */
HT_MUST_CHECK
enum event_result event_next(struct event_decoder *decoder, struct bytes *in, struct event *ret);
