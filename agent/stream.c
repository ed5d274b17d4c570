/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stream.h"

#include "agent/send.h"

/* The words of a mapping, and a THREAD event before and after them. */
#define STREAM_MAPPING_BYTES (ABI_WORDS * ENCODE_WORD_BYTES + 2 * ENCODE_THREAD_BYTES)

/* Hands the buffer over. False in a forked child and after recording has stopped: the slot is
 * unchanged. */
static HT_NOINLINE bool buffer_flush(const struct abi_config *config, struct abi_slot *slot)
{
	struct abi_slot_head *head = &slot->head;
	uint64_t committed = load_relaxed(&head->committed);
	uint64_t used = stream_used(head);
	enum abi_loss loss;
	bool sent = used == 0 || used > ABI_BUFFER_BYTES || send_buffer(config, slot, &loss);
	if (!config_recording(config))
		return false;
	if (!sent)
		count_add(&head->lost[loss], head->events - head->first_event);
	store_relaxed(&head->gave_up, !sent && loss == ABI_LOSS_TIMEOUT);
	store_release(&head->buffer_start, committed);
	return true;
}

/* Resets the delta state. The buffer is empty, so a thread that is interrupted here repeats the
 * reset. */
static HT_NOINLINE void buffer_begin(struct abi_slot *slot)
{
	struct abi_slot_head *head = &slot->head;
	store_relaxed(&head->last_addr, 0);
	store_relaxed(&head->first_event, head->events);
	__builtin_memset(head->recent, 0, sizeof(head->recent));
	encode_thread(slot->buffer, head->tid, head->key & (ABI_SLOT_DEAD - 1));
	store_release(&head->committed, head->buffer_start + ENCODE_THREAD_BYTES);
}

HT_NOINLINE uint64_t stream_room_made(const struct abi_config *config, struct abi_slot *slot)
{
	if (stream_used(&slot->head) != 0 && !buffer_flush(config, slot))
		return 0;
	/* A signal handler may have forked since the hook was entered. */
	if (!config_alive(config))
		return 0;
	buffer_begin(slot);
	return ENCODE_THREAD_BYTES;
}

uint64_t stream_mapping_stamp(const struct abi_config *config, const struct abi_slot *slot)
{
	/* A signal handler or another thread may have forbidden the clock since the hook was
	 * entered. */
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
	uint64_t used = mapping->tsc ? stream_room(config, slot, STREAM_MAPPING_BYTES) : 0;
	if (used == 0 || !config_recording(config))
		return;
	uint8_t *at = slot->buffer + used;
	for (unsigned i = 0; i < ABI_WORDS; i++)
		at = encode_whole_word(at, i + 1, word[i]);
	at = encode_thread(at, head->tid, head->key & (ABI_SLOT_DEAD - 1));
	/* Counted after the commit: a thread killed in between must not leave a count without its
	 * event. */
	store_release(&head->committed,
		load_relaxed(&head->committed) + (uint64_t)(at - slot->buffer) - used);
	count_add(&head->mappings, 1);
}

void stream_announce(const struct abi_config *config, struct abi_slot *slot)
{
	struct abi_slot_head *head = &slot->head;
	if (stream_used(head) == 0)
		return; /* the next buffer begins with a THREAD event anyway */
	uint64_t used = stream_room(config, slot, STREAM_ROOM_BYTES);
	if (used == 0)
		return;
	encode_thread(slot->buffer + used, head->tid, head->key & (ABI_SLOT_DEAD - 1));
	store_release(&head->committed, head->committed + ENCODE_THREAD_BYTES);
}

void stream_restart(const struct abi_config *config, struct abi_slot *slot)
{
	(void)buffer_flush(config, slot);
}
