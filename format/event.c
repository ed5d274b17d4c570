/* SPDX-License-Identifier: Apache-2.0 */
#include "format/event.h"

#include <string.h>

#define THREAD_BYTES 9u

void event_decoder_restart(struct event_decoder *decoder)
{
	*decoder = (struct event_decoder){.in_step = true};
}

/* The four functions below take a field of a length code off `at`. They may load up to the field's
 * greatest width, which stays within ABI_EVENT_MAX_BYTES of the event's start. */
static uint64_t take_number(const uint8_t **at, unsigned int code)
{
	static const uint64_t mask[] = {0xff, 0xffff, 0xffffffff, UINT64_MAX};
	uint64_t value;
	memcpy(&value, *at, sizeof(value));
	*at += 1u << code;
	return value & mask[code];
}

static uint32_t take_stack(const uint8_t **at, unsigned int code)
{
	uint32_t value;
	memcpy(&value, *at, sizeof(value));
	*at += code + 1;
	return value & UINT32_MAX >> 8 * (3 - code);
}

static bool take_time(struct event_decoder *decoder, const uint8_t **at, unsigned int code)
{
	uint64_t time = take_number(at, code);
	return time <= UINT64_MAX >> ABI_TIME_SHIFT &&
	       !__builtin_add_overflow(decoder->tsc, time << ABI_TIME_SHIFT, &decoder->tsc);
}

static void take_addr(struct event_decoder *decoder, const uint8_t **at, unsigned int code)
{
	uint64_t word = take_number(at, code);
	uint64_t addr = code ? decoder->addr + abi_addr_unfold(word) : decoder->recent[word];
	decoder->addr = addr;
	if (addr % 2 == 0)
		decoder->recent[abi_recent_index(addr)] = addr;
}

static void take_thread(struct event_decoder *decoder, const uint8_t *at)
{
	memcpy(&decoder->tid, at + 1, sizeof(decoder->tid));
	memcpy(&decoder->level, at + 5, sizeof(decoder->level));
	decoder->has_thread = true;
	decoder->words = 0;
}

static void fill_mapping(const struct event_decoder *decoder, struct event *ret)
{
	uint64_t call = decoder->word[ABI_WORD_CALL - 1];
	*ret = (struct event){.kind = ABI_EVENT_MAPPING,
		.tid = decoder->tid,
		.tsc = decoder->word[ABI_WORD_TIME - 1],
		.addr = decoder->word[ABI_WORD_ADDR - 1],
		.size = decoder->word[ABI_WORD_LENGTH - 1],
		.stack = (uint32_t)call,
		.hook = (uint8_t)(call >> ABI_WORD_CALL_SHIFT),
		.protect = (uint8_t)(call >> ABI_WORD_PROTECT_SHIFT),
		.flags = (uint32_t)decoder->word[ABI_WORD_FLAGS - 1]};
}

/* Takes word `number` of a mapping; false if it is out of order. Words beyond ABI_WORDS come from a
 * later version and are skipped. */
static bool take_word(struct event_decoder *decoder, unsigned number, const uint8_t *at)
{
	if (number > ABI_WORDS)
		return decoder->has_thread;
	if (!decoder->has_thread || number != decoder->words + 1)
		return false;
	memcpy(&decoder->word[number - 1], at + 1, sizeof(decoder->word[0]));
	decoder->words = number;
	return true;
}

/* Takes a THREAD event or a word, as take_event; sets `*ret_whole` if it completes a mapping. */
static size_t take_thread_or_word(
	struct event_decoder *decoder, const uint8_t *start, struct event *ret, bool *ret_whole)
{
	unsigned number = start[0] >> ABI_WORD_SHIFT;
	if (number == 0) {
		take_thread(decoder, start);
		return THREAD_BYTES;
	}
	if (!take_word(decoder, number, start))
		return 0;
	*ret_whole = number == ABI_WORDS;
	if (*ret_whole)
		fill_mapping(decoder, ret);
	return THREAD_BYTES;
}

/* Decodes the event at `start`, where ABI_EVENT_MAX_BYTES must be readable. Returns its length in
 * bytes; 0: malformed. */
static size_t take_event(struct event_decoder *decoder, const uint8_t *start, struct event *ret)
{
	uint8_t tag0 = start[0];
	unsigned int time_code = tag0 >> 3 & 3;
	unsigned int addr_code = tag0 >> 5 & 3;
	enum abi_event_kind kind = tag0 & 7;
	if (kind < ABI_EVENT_THREAD || kind > ABI_EVENT_REALLOC_FAIL || !decoder->has_thread)
		return 0;

	const uint8_t *at = start + 1;
	*ret = (struct event){.kind = kind, .tid = decoder->tid};
	if (kind == ABI_EVENT_REALLOC_FREED || kind == ABI_EVENT_REALLOC_FAIL) {
		if (!take_time(decoder, &at, time_code))
			return 0;
		ret->tsc = decoder->tsc;
		return (size_t)(at - start);
	}
	uint8_t tag1 = *at++;
	if (!take_time(decoder, &at, time_code))
		return 0;
	take_addr(decoder, &at, addr_code);
	ret->hook = tag1 >> 4;
	ret->tsc = decoder->tsc;
	ret->addr = decoder->addr;
	bool with_stack = kind == ABI_EVENT_ALLOC || kind == ABI_EVENT_REALLOC_END;
	if (with_stack || !(tag1 & ABI_EVENT_NO_SIZE))
		ret->size = take_number(&at, tag1 & 3);
	if (with_stack)
		ret->stack = take_stack(&at, tag1 >> 2 & 3);
	return (size_t)(at - start);
}

size_t event_step(
	struct event_decoder *decoder, const uint8_t *at, struct event *ret, bool *ret_whole)
{
	*ret_whole = (*at & 7) != ABI_EVENT_THREAD;
	return *ret_whole ? take_event(decoder, at, ret)
			  : take_thread_or_word(decoder, at, ret, ret_whole);
}

static enum event_result lose_step(struct event_decoder *decoder, struct bytes *in)
{
	decoder->in_step = false;
	in->at = in->end;
	return EVENT_MALFORMED;
}

enum event_result event_next(struct event_decoder *decoder, struct bytes *in, struct event *ret)
{
	for (;;) {
		size_t left = bytes_left(in);
		if (!left)
			return EVENT_NONE_LEFT;
		if (!decoder->in_step)
			return lose_step(decoder, in);
		uint8_t padded[ABI_EVENT_MAX_BYTES];
		const uint8_t *start = in->at;
		if (ht_unlikely(left < sizeof(padded))) {
			memset(padded, 0, sizeof(padded));
			memcpy(padded, in->at, left);
			start = padded;
		}
		bool is_whole;
		const size_t used = event_step(decoder, start, ret, &is_whole);
		if (!used || used > left)
			return lose_step(decoder, in);
		in->at += used;
		if (is_whole)
			return EVENT_OK;
	}
}
