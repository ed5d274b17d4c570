/* SPDX-License-Identifier: Apache-2.0 */
#include "format/event_reencode.h"

#include <string.h>

void event_reencoder_deinit(struct event_reencoder *encoder)
{
	bytes_out_deinit(&encoder->out);
}

void event_reencoder_begin(struct event_reencoder *encoder)
{
	encoder->out.length = 0;
	encoder->tsc = 0;
	encoder->addr = 0;
	memset(encoder->recent, 0, sizeof(encoder->recent));
}

/* An event under construction. */
struct piece {
	uint8_t bytes[64];
	size_t length;
};

static void put(struct piece *piece, uint64_t value, size_t bytes)
{
	memcpy(piece->bytes + piece->length, &value, bytes);
	piece->length += bytes;
}

static struct ht_err *finish(struct event_reencoder *encoder, const struct piece *piece)
{
	return bytes_out_put(&encoder->out, piece->bytes, piece->length);
}

/* 1, 2, 4, 8 bytes. */
static unsigned number_code(uint64_t value)
{
	return value <= UINT8_MAX ? 0 : value <= UINT16_MAX ? 1 : value <= UINT32_MAX ? 2 : 3;
}

static void put_number(struct piece *piece, uint64_t value, unsigned code)
{
	put(piece, value, (size_t)1 << code);
}

/* 1, 2, 3, 4 bytes. */
static unsigned stack_code(uint32_t value)
{
	return value < 1u << 8 ? 0 : value < 1u << 16 ? 1 : value < 1u << 24 ? 2 : 3;
}

struct ht_err *event_reencoder_thread(struct event_reencoder *encoder, uint32_t tid, uint32_t level)
{
	struct piece piece = {.length = 0};
	put(&piece, ABI_EVENT_THREAD, 1);
	put(&piece, tid, sizeof(tid));
	put(&piece, level, sizeof(level));
	return finish(encoder, &piece);
}

static struct ht_err *put_mapping(
	struct event_reencoder *encoder, const struct event *event, uint32_t level)
{
	const uint64_t word[ABI_WORDS] = {
		event->tsc,
		event->addr,
		event->size,
		event->stack | (uint64_t)event->hook << ABI_WORD_CALL_SHIFT |
			(uint64_t)event->protect << ABI_WORD_PROTECT_SHIFT,
		event->flags,
	};
	struct piece piece = {.length = 0};
	for (unsigned i = 0; i < ABI_WORDS; i++) {
		put(&piece, ABI_EVENT_THREAD | (i + 1) << ABI_WORD_SHIFT, 1);
		put(&piece, word[i], sizeof(word[i]));
	}
	HT_TRY(finish(encoder, &piece));
	return event_reencoder_thread(encoder, event->tid, level);
}

static uint64_t step_time(struct event_reencoder *encoder, uint64_t tsc)
{
	const uint64_t floor = abi_time_floor(tsc);
	const uint64_t step = floor > encoder->tsc ? floor - encoder->tsc : 0;
	encoder->tsc += step;
	return step >> ABI_TIME_SHIFT;
}

static uint64_t step_addr(struct event_reencoder *encoder, uint64_t addr, unsigned *ret_code)
{
	const uint64_t index = abi_recent_index(addr);
	const uint64_t folded = abi_addr_fold(addr - encoder->addr);
	const bool is_recent = encoder->recent[index] == addr;
	encoder->addr = addr;
	if (addr % 2 == 0)
		encoder->recent[index] = addr;
	/* Code 0 means an index into the table of recent addresses, so a difference gets at least
	 * code 1. */
	*ret_code = is_recent ? 0 : number_code(folded | (UINT8_MAX + 1));
	return is_recent ? index : folded;
}

struct ht_err *event_reencoder_put(
	struct event_reencoder *encoder, const struct event *event, uint32_t level)
{
	struct piece piece = {.length = 0};
	if (event->kind == ABI_EVENT_MAPPING)
		return put_mapping(encoder, event, level);
	const uint64_t time = step_time(encoder, event->tsc);
	const unsigned time_code = number_code(time);
	if (event->kind == ABI_EVENT_REALLOC_FREED || event->kind == ABI_EVENT_REALLOC_FAIL) {
		put(&piece, (unsigned)event->kind | time_code << 3, 1);
		put_number(&piece, time, time_code);
		return finish(encoder, &piece);
	}
	const bool has_stack =
		event->kind == ABI_EVENT_ALLOC || event->kind == ABI_EVENT_REALLOC_END;
	const bool has_size = has_stack || event->size;
	unsigned addr_code;
	const uint64_t addr = step_addr(encoder, event->addr, &addr_code);
	put(&piece, (unsigned)event->kind | time_code << 3 | addr_code << 5, 1);
	put(&piece,
		number_code(event->size) | (unsigned)event->hook << 4 |
			(has_stack ? stack_code(event->stack) << 2
				   : (has_size ? 0 : ABI_EVENT_NO_SIZE)),
		1);
	put_number(&piece, time, time_code);
	put_number(&piece, addr, addr_code);
	if (has_size)
		put_number(&piece, event->size, number_code(event->size));
	if (has_stack)
		put(&piece, event->stack, stack_code(event->stack) + 1);
	return finish(encoder, &piece);
}
