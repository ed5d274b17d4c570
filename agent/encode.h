/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of one event (format/abi_event.h). Every field is stored as a whole word and the write
 * position moved by its length: the code branches on a value only if the branch nearly always goes
 * the same way.
 */
#pragma once

#include "format/abi_event.h"

#define ENCODE_THREAD_BYTES 9u

/* Flags in a slot's recent addresses, about the address's last event. */
#define ENCODE_ALLOCATED 1ull
#define ENCODE_SMALL	 2ull /* the block is small; only with ENCODE_ALLOCATED */
#define ENCODE_FLAGS	 (ENCODE_ALLOCATED | ENCODE_SMALL)

static inline uint8_t *encode_word(uint8_t *at, uint64_t value, unsigned code)
{
	__builtin_memcpy(at, &value, sizeof(value));
	return at + (1u << code);
}

static inline unsigned encode_code(uint64_t value)
{
	unsigned code = value > UINT8_MAX;
	if (ht_unlikely(value > UINT16_MAX))
		code = 2 + (value > UINT32_MAX);
	return code;
}

static inline unsigned encode_stack_code(uint32_t id)
{
	unsigned code = (id > 0xff) + (id > 0xffff);
	return ht_likely(id <= 0xffffff) ? code : 3;
}

static inline uint8_t *encode_thread(uint8_t *at, uint32_t tid, uint32_t level)
{
	*at = ABI_EVENT_THREAD;
	__builtin_memcpy(at + 1, &tid, sizeof(tid));
	__builtin_memcpy(at + 5, &level, sizeof(level));
	return at + ENCODE_THREAD_BYTES;
}

#define ENCODE_WORD_BYTES 9u

/* Encodes a word of a mapping event (enum abi_word). */
static inline uint8_t *encode_whole_word(uint8_t *at, unsigned number, uint64_t value)
{
	*at = (uint8_t)(ABI_EVENT_THREAD | number << ABI_WORD_SHIFT);
	__builtin_memcpy(at + 1, &value, sizeof(value));
	return at + ENCODE_WORD_BYTES;
}

/* Encodes REALLOC_FREED or REALLOC_FAIL. */
static inline uint8_t *encode_mark(uint8_t *at, unsigned kind, uint64_t time)
{
	unsigned code = encode_code(time);
	*at = (uint8_t)(kind | code << 3);
	return encode_word(at + 1, time, code);
}

struct encode_addr {
	uint64_t word;
	unsigned code;
};

/*
 * Encodes an address as its difference to `last` or as an index, and stores it with `flags` in the
 * slot's recent addresses. An even address that is not a multiple of 4 has no room for flags: it is
 * stored as a value that no lookup matches.
 */
static inline struct encode_addr encode_addr(
	uint64_t recent[ABI_RECENT_COUNT], uint64_t addr, uint64_t last, uint64_t flags)
{
	uint64_t index = abi_recent_index(addr);
	struct encode_addr ret = {.word = index};
	if ((recent[index] & ~ENCODE_FLAGS) != addr) {
		ret.word = abi_addr_fold(addr - last);
		/* Code 0 means an index, so a difference takes at least two bytes. */
		ret.code = 1 + (ret.word > UINT16_MAX) + (ret.word > UINT32_MAX);
	}
	if (ht_likely(!(addr & ENCODE_FLAGS)))
		recent[index] = addr | flags;
	else if (addr % 2 == 0)
		recent[index] = (uint64_t)!index << 4;
	return ret;
}

/* Encodes events with an address; `stack` counts only if `with_stack`. Touches at most
 * ABI_EVENT_MAX_BYTES. */
static inline uint8_t *encode_block(uint8_t *at, unsigned kind, unsigned hook, uint64_t time,
	struct encode_addr addr, uint64_t size, uint32_t stack, bool with_stack)
{
	uint8_t *tag0 = at, *tag1 = at + 1;
	unsigned time_code = 0;
	at = encode_word(at + 2, time, 0);
	if (ht_unlikely(time > UINT8_MAX)) {
		time_code = encode_code(time);
		at += (1u << time_code) - 1;
	}
	*tag0 = (uint8_t)(kind | time_code << 3 | addr.code << 5);
	at = encode_word(at, addr.word, addr.code);
	if (!with_stack && size == 0) {
		*tag1 = (uint8_t)(ABI_EVENT_NO_SIZE | hook << 4);
		return at;
	}
	unsigned size_code = encode_code(size);
	at = encode_word(at, size, size_code);
	if (!with_stack) {
		*tag1 = (uint8_t)(size_code | hook << 4);
		return at;
	}
	unsigned stack_code = encode_stack_code(stack);
	*tag1 = (uint8_t)(size_code | stack_code << 2 | hook << 4);
	__builtin_memcpy(at, &stack, sizeof(stack));
	return at + stack_code + 1;
}
