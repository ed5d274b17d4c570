/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot's endless stream of events: encoding, the buffer, and its hand-over to the daemon. The
 * caller owns the slot and has marked it ABI_SLOT_RECORDING.
 */
#pragma once

#include "agent/encode.h"
#include "format/abi_control.h"
#include "format/abi_event.h"

struct stream_event {
	enum abi_event_kind kind;
	unsigned hook; /* enum abi_hook */
	uint64_t addr;
	uint64_t size;	/* of FREE and REALLOC_BEGIN: 0 is unknown */
	uint32_t stack; /* node id; 0: none */
};

/*
 * Stamps, encodes and commits one event. Hands the buffer over first when it is full, which may
 * wait (abi_config.wait_cycles_max). Writes nothing in a forked child. Three functions for three
 * shapes: REALLOC_FREED and REALLOC_FAIL; FREE and REALLOC_BEGIN; ALLOC and REALLOC_END.
 */
void stream_put_mark(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event);
void stream_put_freed(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event);
void stream_put_block(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event);

/* The one of the three that is for the event's kind. */
static inline void stream_put(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event)
{
	if (event->kind == ABI_EVENT_REALLOC_FREED || event->kind == ABI_EVENT_REALLOC_FAIL)
		stream_put_mark(config, slot, event);
	else if (event->kind == ABI_EVENT_FREE || event->kind == ABI_EVENT_REALLOC_BEGIN)
		stream_put_freed(config, slot, event);
	else
		stream_put_block(config, slot, event);
}

/* What was done to a mapping. */
struct stream_mapping {
	enum abi_mapping_call call;
	uint64_t tsc; /* of stream_mapping_stamp */
	uint64_t addr, length;
	uint32_t protect, flags;
	uint32_t stack; /* node id; 0: none */
};

/* The time of a mapping: behind everything that this thread has got from others. */
uint64_t stream_mapping_stamp(const struct abi_config *config, const struct abi_slot *slot);
/* As the three above, but of a mapping, and stamped already. */
void stream_put_mapping(const struct abi_config *config, struct abi_slot *slot,
	const struct stream_mapping *mapping);

/* Is `addr` a block whose allocation is among the last events of this stream? Then the free of it
 * needs no size. */
static inline bool stream_allocated(const struct abi_slot *slot, uint64_t addr)
{
	uint64_t recent = slot->head.recent[abi_recent_index(addr)];
	return (recent & ~ENCODE_SMALL) == (addr | ENCODE_ALLOCATED);
}

/* The events from here on are those of the slot's present tid. */
void stream_announce(const struct abi_config *config, struct abi_slot *slot);

/* Begins a new buffer: an owner that never came back may have left the delta state half written. */
void stream_restart(const struct abi_config *config, struct abi_slot *slot);
