/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stream.h"

#include "agent/encode.h"
#include "agent/send.h"
#include "agent/sys.h"
#include "agent/thread.h"

/* An event, and the THREAD event that may have to go before it. */
#define STREAM_ROOM_BYTES (ABI_EVENT_MAX_BYTES + ENCODE_THREAD_BYTES)

_Static_assert(ABI_EVENT_MAX_BYTES >= 2 + 8 + 8 + 8 + 4, "the longest event");

/*
 * What lies in the buffer. A process that shares the target's memory and thread pointer may write
 * the same slot; then the words mean nothing, but no index made of them may leave the buffer.
 */
static uint64_t buffer_used(const struct abi_slot_head *head)
{
	return load_relaxed(&head->committed) - load_relaxed(&head->buffer_start);
}

/* False in a forked child, which must leave the slot as it is. */
static bool buffer_flush(const struct abi_config *config, struct abi_slot *slot)
{
	struct abi_slot_head *head = &slot->head;
	uint64_t committed = load_relaxed(&head->committed);
	uint64_t used = buffer_used(head);
	enum abi_loss loss;
	bool sent = used == 0 || used > ABI_BUFFER_BYTES || send_buffer(config, slot, &loss);
	if (!thread_alive(config))
		return false;
	if (!sent)
		count_add(&head->lost[loss], head->buffer_events);
	store_relaxed(&head->gave_up, !sent && loss == ABI_LOSS_TIMEOUT);
	store_release(&head->buffer_start, committed);
	return true;
}

/* The delta state is reset only while the buffer is empty: whoever is interrupted here repeats it.
 */
static void buffer_begin(struct abi_slot *slot)
{
	struct abi_slot_head *head = &slot->head;
	store_relaxed(&head->last_addr, 0);
	store_relaxed(&head->buffer_events, 0);
	encode_thread(slot->buffer, head->tid, head->key & (ABI_SLOT_DEAD - 1));
	store_release(&head->committed, head->buffer_start + ENCODE_THREAD_BYTES);
}

/*
 * Makes room for one event behind the bytes in use, whose number it returns. False in a forked
 * child.
 */
static bool buffer_room(const struct abi_config *config, struct abi_slot *slot, uint64_t *ret_used)
{
	*ret_used = buffer_used(&slot->head);
	if (ht_likely(*ret_used != 0 && *ret_used <= ABI_BUFFER_BYTES - STREAM_ROOM_BYTES))
		return true;
	if (*ret_used != 0 && !buffer_flush(config, slot))
		return false;
	buffer_begin(slot);
	*ret_used = ENCODE_THREAD_BYTES;
	return true;
}

/* Events that say only what became of the REALLOC_BEGIN before them. */
static bool is_mark(enum abi_event_kind kind)
{
	return kind == ABI_EVENT_REALLOC_FREED || kind == ABI_EVENT_REALLOC_FAIL;
}

static uint8_t *event_encode(
	const struct stream_event *event, uint8_t *at, uint64_t time, uint64_t last_addr)
{
	if (is_mark(event->kind))
		return encode_mark(at, event->kind, time);
	bool with_stack = event->kind == ABI_EVENT_ALLOC || event->kind == ABI_EVENT_REALLOC_END;
	return encode_block(at, event->kind, event->hook, time,
		abi_addr_fold(event->addr - last_addr), event->size, event->stack, with_stack);
}

void stream_put(
	const struct abi_config *config, struct abi_slot *slot, const struct stream_event *event)
{
	struct abi_slot_head *head = &slot->head;
	uint64_t used;
	if (!buffer_room(config, slot, &used))
		return;
	/* Clocks of two processors may differ by a little: time never goes back in a stream. */
	uint64_t last_tsc = head->last_tsc, tsc = sys_tsc();
	if (tsc < last_tsc)
		tsc = last_tsc;
	uint64_t time = head->buffer_events ? tsc - last_tsc : tsc;
	if (ht_unlikely(!thread_alive(config)))
		return;
	uint8_t *at = slot->buffer + used;
	uint8_t *end = event_encode(event, at, time, head->last_addr);
	if (!is_mark(event->kind))
		store_relaxed(&head->last_addr, event->addr);
	store_relaxed(&head->last_tsc, tsc);
	count_add(&head->events, 1);
	count_add(&head->buffer_events, 1);
	store_release(&head->committed, load_relaxed(&head->committed) + (uint64_t)(end - at));
}

void stream_announce(const struct abi_config *config, struct abi_slot *slot)
{
	struct abi_slot_head *head = &slot->head;
	uint64_t used;
	if (buffer_used(head) == 0)
		return; /* the next buffer begins with it anyway */
	if (!buffer_room(config, slot, &used))
		return;
	encode_thread(slot->buffer + used, head->tid, head->key & (ABI_SLOT_DEAD - 1));
	store_release(&head->committed, head->committed + ENCODE_THREAD_BYTES);
}

void stream_restart(const struct abi_config *config, struct abi_slot *slot)
{
	(void)buffer_flush(config, slot);
}
