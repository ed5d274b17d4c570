/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot's endless stream of events: encoding, the buffer, and its hand-over to the daemon. The
 * caller owns the slot and has marked it ABI_SLOT_RECORDING.
 */
#pragma once

#include "agent/config.h"
#include "agent/encode.h"
#include "agent/stamp.h"
#include "format/abi_control.h"
#include "format/abi_event.h"

struct stream_event {
	enum abi_event_kind kind;
	unsigned hook; /* enum abi_hook */
	uint64_t addr;
	uint64_t size;	/* of FREE and REALLOC_BEGIN: 0 is unknown */
	uint32_t stack; /* node id; 0: none */
};

/* An event, and the THREAD event that may have to go before it. */
#define STREAM_ROOM_BYTES (ABI_EVENT_MAX_BYTES + ENCODE_THREAD_BYTES)

_Static_assert(ABI_EVENT_MAX_BYTES >= 2 + 8 + 8 + 8 + 4, "the longest event");

/*
 * Bytes used in the buffer. A process that shares the target's memory and thread pointer may write
 * the same slot; the words are then garbage, but no index computed from them may leave the buffer.
 */
static inline uint64_t stream_used(const struct abi_slot_head *head)
{
	return load_relaxed(&head->committed) - load_relaxed(&head->buffer_start);
}

/* The slow path of stream_room: hands the buffer over, or begins a new one. */
uint64_t stream_room_made(const struct abi_config *config, struct abi_slot *slot);

/*
 * Makes room for `bytes` in the buffer and returns the number of bytes used. 0 in a forked child
 * and after recording has stopped.
 */
static inline uint64_t stream_room(
	const struct abi_config *config, struct abi_slot *slot, uint64_t bytes)
{
	uint64_t used = stream_used(&slot->head);
	bool has_room = used - 1 < ABI_BUFFER_BYTES - bytes;
	return ht_likely(has_room) ? used : stream_room_made(config, slot);
}

/* The fields of an event; a compile-time constant, so that each kind gets its own code. */
enum stream_shape {
	STREAM_MARK,
	STREAM_FREED,
	STREAM_BLOCK,
};

static inline __attribute__((always_inline)) uint8_t *stream_encode(struct abi_slot_head *head,
	const struct stream_event *event, enum stream_shape shape, uint8_t *at, uint64_t time)
{
	if (shape == STREAM_MARK)
		return encode_mark(at, event->kind, time);
	uint64_t block = event->addr, last = head->last_addr;
	uint64_t flags = 0;
	if (shape == STREAM_BLOCK)
		flags = ENCODE_ALLOCATED | (event->size <= STAMP_SMALL_BYTES ? ENCODE_SMALL : 0);
	struct encode_addr addr = encode_addr(head->recent, block, last, flags);
	store_relaxed(&head->last_addr, block);
	return encode_block(at, event->kind, event->hook, time, addr, event->size, event->stack,
		shape == STREAM_BLOCK);
}

static inline __attribute__((always_inline)) void stream_put_shape(const struct abi_config *config,
	struct abi_slot *slot, const struct stream_event *event, enum stream_shape shape)
{
	struct abi_slot_head *head = &slot->head;
	uint64_t used = stream_room(config, slot, STREAM_ROOM_BYTES);
	if (ht_unlikely(used == 0))
		return;
	struct stamp_event stamped = {.addr = event->addr,
		.has_addr = shape != STREAM_MARK,
		.is_small = shape == STREAM_BLOCK && event->size <= STAMP_SMALL_BYTES,
		.is_freed = shape == STREAM_FREED};
	uint64_t last_tsc = head->last_tsc, tsc = stamp(config, slot, stamped);
	uint64_t events = head->events;
	uint64_t time = (events != head->first_event ? tsc - last_tsc : tsc) >> ABI_TIME_SHIFT;
	if (ht_unlikely(tsc == 0 || !config_alive(config)))
		return;
	uint8_t *at = slot->buffer + used;
	uint8_t *end = stream_encode(head, event, shape, at, time);
	store_relaxed(&head->last_tsc, tsc);
	store_relaxed(&head->events, events + 1);
	store_release(&head->committed, load_relaxed(&head->committed) + (uint64_t)(end - at));
}

/*
 * Stamps, encodes and commits one event. Hands the buffer over first when it is full, which may
 * wait (abi_config.wait_cycles_max). Writes nothing in a forked child. Three functions for three
 * kinds of events: REALLOC_FREED and REALLOC_FAIL; FREE and REALLOC_BEGIN; ALLOC and REALLOC_END.
 */
static inline void stream_put_mark(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event)
{
	stream_put_shape(config, slot, event, STREAM_MARK);
}

static inline __attribute__((always_inline)) void stream_put_freed(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event)
{
	stream_put_shape(config, slot, event, STREAM_FREED);
}

static inline __attribute__((always_inline)) void stream_put_block(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event)
{
	stream_put_shape(config, slot, event, STREAM_BLOCK);
}

/* Calls stream_put_mark, or the function for frees or for allocations, by the event's kind. */
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

/* A change of a mapping. */
struct stream_mapping {
	enum abi_mapping_call call;
	uint64_t tsc; /* from stream_mapping_stamp */
	uint64_t addr, length;
	uint32_t protect, flags;
	uint32_t stack; /* node id; 0: none */
};

/* The time of a change of a mapping: read after all loads before it, as in stamp_fenced. 0:
 * recording has stopped. */
uint64_t stream_mapping_stamp(const struct abi_config *config, const struct abi_slot *slot);
/* Encodes and commits a mapping event, whose time is already taken. */
void stream_put_mapping(const struct abi_config *config, struct abi_slot *slot,
	const struct stream_mapping *mapping);

/* Whether the allocation of the block at `addr` is among the last events of this stream. If so, its
 * free needs no size. */
static inline bool stream_allocated(const struct abi_slot *slot, uint64_t addr)
{
	uint64_t recent = slot->head.recent[abi_recent_index(addr)];
	return (recent & ~ENCODE_SMALL) == (addr | ENCODE_ALLOCATED);
}

/* Appends a THREAD event: the following events belong to the slot's current tid. */
void stream_announce(const struct abi_config *config, struct abi_slot *slot);

/* Hands the buffer over, so that the next event begins a new one. Call it if a former owner of the
 * slot never left its hook: the delta state may be half written. */
void stream_restart(const struct abi_config *config, struct abi_slot *slot);
