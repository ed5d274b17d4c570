/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stream.h"

#include "agent/config.h"
#include "agent/encode.h"
#include "agent/send.h"
#include "agent/stamp.h"

/* An event, and the THREAD event that may have to go before it. */
#define STREAM_ROOM_BYTES (ABI_EVENT_MAX_BYTES + ENCODE_THREAD_BYTES)
/* The words of a mapping, and a THREAD event before and after them. */
#define STREAM_MAPPING_BYTES (ABI_WORDS * ENCODE_WORD_BYTES + 2 * ENCODE_THREAD_BYTES)

_Static_assert(ABI_EVENT_MAX_BYTES >= 2 + 8 + 8 + 8 + 4, "the longest event");

/*
 * What lies in the buffer. A process that shares the target's memory and thread pointer may write
 * the same slot; then the words mean nothing, but no index made of them may leave the buffer.
 */
static uint64_t buffer_used(const struct abi_slot_head *head)
{
	return load_relaxed(&head->committed) - load_relaxed(&head->buffer_start);
}

/* False in a forked child, and where nothing is recorded any more: the slot stays as it is. */
static HT_NOINLINE bool buffer_flush(const struct abi_config *config, struct abi_slot *slot)
{
	struct abi_slot_head *head = &slot->head;
	uint64_t committed = load_relaxed(&head->committed);
	uint64_t used = buffer_used(head);
	enum abi_loss loss;
	bool sent = used == 0 || used > ABI_BUFFER_BYTES || send_buffer(config, slot, &loss);
	if (!config_recording(config))
		return false;
	if (!sent)
		count_add(&head->lost[loss], head->buffer_events);
	store_relaxed(&head->gave_up, !sent && loss == ABI_LOSS_TIMEOUT);
	store_release(&head->buffer_start, committed);
	return true;
}

/* The delta state is reset only while the buffer is empty: whoever is interrupted here repeats it.
 */
static HT_NOINLINE void buffer_begin(struct abi_slot *slot)
{
	struct abi_slot_head *head = &slot->head;
	store_relaxed(&head->last_addr, 0);
	store_relaxed(&head->buffer_events, 0);
	__builtin_memset(head->recent, 0, sizeof(head->recent));
	encode_thread(slot->buffer, head->tid, head->key & (ABI_SLOT_DEAD - 1));
	store_release(&head->committed, head->buffer_start + ENCODE_THREAD_BYTES);
}

/*
 * Makes room for `bytes` behind those in use, whose number it returns. False in a forked child.
 */
static inline __attribute__((always_inline)) bool buffer_room(
	const struct abi_config *config, struct abi_slot *slot, uint64_t bytes, uint64_t *ret_used)
{
	*ret_used = buffer_used(&slot->head);
	if (ht_likely(*ret_used != 0 && *ret_used <= ABI_BUFFER_BYTES - bytes))
		return true;
	if (*ret_used != 0 && !buffer_flush(config, slot))
		return false;
	buffer_begin(slot);
	*ret_used = ENCODE_THREAD_BYTES;
	return true;
}

/* Which fields an event has; known where it is put, so that each kind gets code of its own. */
enum stream_shape {
	STREAM_MARK,
	STREAM_FREED,
	STREAM_BLOCK,
};

static inline __attribute__((always_inline)) uint8_t *event_encode(struct abi_slot_head *head,
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

static inline __attribute__((always_inline)) void event_put(const struct abi_config *config,
	struct abi_slot *slot, const struct stream_event *event, enum stream_shape shape)
{
	struct abi_slot_head *head = &slot->head;
	uint64_t used;
	/* A handler within this very call, or while it waited, may have forbidden the clock. */
	if (!buffer_room(config, slot, STREAM_ROOM_BYTES, &used) ||
		ht_unlikely(!config_recording(config)))
		return;
	struct stamp_event stamped = {.addr = event->addr,
		.has_addr = shape != STREAM_MARK,
		.is_small = shape == STREAM_BLOCK && event->size <= STAMP_SMALL_BYTES,
		.is_freed = shape == STREAM_FREED};
	uint64_t last_tsc = head->last_tsc, tsc = stamp(config, slot, stamped);
	uint64_t time = (head->buffer_events ? tsc - last_tsc : tsc) >> ABI_TIME_SHIFT;
	if (ht_unlikely(!config_alive(config)))
		return;
	uint8_t *at = slot->buffer + used;
	uint8_t *end = event_encode(head, event, shape, at, time);
	store_relaxed(&head->last_tsc, tsc);
	count_add(&head->events, 1);
	count_add(&head->buffer_events, 1);
	store_release(&head->committed, load_relaxed(&head->committed) + (uint64_t)(end - at));
}

void stream_put_mark(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event)
{
	event_put(config, slot, event, STREAM_MARK);
}

void stream_put_freed(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event)
{
	event_put(config, slot, event, STREAM_FREED);
}

void stream_put_block(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event)
{
	event_put(config, slot, event, STREAM_BLOCK);
}

uint64_t stream_mapping_stamp(const struct abi_config *config, const struct abi_slot *slot)
{
	/* A handler, or another thread, may have forbidden the clock since the hook was entered. */
	if (!config_recording(config))
		return 0;
	uint64_t tsc = abi_time_floor(sys_tsc()), last_tsc = slot->head.last_tsc;
	return tsc < last_tsc ? last_tsc : tsc;
}

void stream_put_mapping(const struct abi_config *config, struct abi_slot *slot,
	const struct stream_mapping *mapping)
{
	struct abi_slot_head *head = &slot->head;
	const uint64_t word[ABI_WORDS] = {[ABI_WORD_TIME - 1] = mapping->tsc,
		[ABI_WORD_ADDR - 1] = mapping->addr,
		[ABI_WORD_LENGTH - 1] = mapping->length,
		[ABI_WORD_CALL - 1] = mapping->stack |
				      (uint64_t)mapping->call << ABI_WORD_CALL_SHIFT |
				      (uint64_t)(uint8_t)mapping->protect << ABI_WORD_PROTECT_SHIFT,
		[ABI_WORD_FLAGS - 1] = mapping->flags};
	uint64_t used;
	if (!mapping->tsc || !buffer_room(config, slot, STREAM_MAPPING_BYTES, &used) ||
		!config_recording(config))
		return;
	uint8_t *at = slot->buffer + used;
	for (unsigned i = 0; i < ABI_WORDS; i++)
		at = encode_whole_word(at, i + 1, word[i]);
	at = encode_thread(at, head->tid, head->key & (ABI_SLOT_DEAD - 1));
	/* Counted afterwards: a thread that is killed in between leaves no count of what never
	 * came. */
	store_release(&head->committed,
		load_relaxed(&head->committed) + (uint64_t)(at - slot->buffer) - used);
	count_add(&head->mappings, 1);
}

void stream_announce(const struct abi_config *config, struct abi_slot *slot)
{
	struct abi_slot_head *head = &slot->head;
	uint64_t used;
	if (buffer_used(head) == 0)
		return; /* the next buffer begins with it anyway */
	if (!buffer_room(config, slot, STREAM_ROOM_BYTES, &used))
		return;
	encode_thread(slot->buffer + used, head->tid, head->key & (ABI_SLOT_DEAD - 1));
	store_release(&head->committed, head->committed + ENCODE_THREAD_BYTES);
}

void stream_restart(const struct abi_config *config, struct abi_slot *slot)
{
	(void)buffer_flush(config, slot);
}
