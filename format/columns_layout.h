/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of a piece's columns (FORMAT.md, 3.8). Internal to columns.c, which writes it, and
 * columns_decode.c, which reads it.
 */
#pragma once

#include "format/abi_event.h"

enum column {
	COLUMN_SHAPE,
	COLUMN_TIME,
	COLUMN_ADDR,
	COLUMN_SIZE,
	COLUMN_STACK,
	COLUMN_OTHER,
	COLUMN_COUNT
};

#define TAG_BYTES     2u
#define SHAPES_MAX    255u
#define TIME_LEFT_OUT 0x80u /* in the first tag of a shape */
#define THREAD_BYTES  9u

/* Fields are copied as whole words; EVENT_ROOM bytes of an event must be readable or writable. */
#define WORD_BYTES 8u
#define EVENT_ROOM ABI_EVENT_MAX_BYTES

/* Field lengths in bytes of an event with two tags; all 0 for an event with one tag. */
struct widths {
	uint8_t event, time, addr, size, stack;
};

static inline struct widths widths_of(uint8_t tag0, uint8_t tag1)
{
	unsigned int kind = tag0 & 7;
	bool with_stack = kind == ABI_EVENT_ALLOC || kind == ABI_EVENT_REALLOC_END;
	if (!with_stack && kind != ABI_EVENT_FREE && kind != ABI_EVENT_REALLOC_BEGIN)
		return (struct widths){0};
	struct widths widths = {
		.time = (uint8_t)(1u << (tag0 >> 3 & 3)),
		.addr = (uint8_t)(1u << (tag0 >> 5 & 3)),
	};
	if (with_stack || !(tag1 & ABI_EVENT_NO_SIZE))
		widths.size = (uint8_t)(1u << (tag1 & 3));
	if (with_stack)
		widths.stack = (uint8_t)((tag1 >> 2 & 3) + 1);
	widths.event =
		(uint8_t)(TAG_BYTES + widths.time + widths.addr + widths.size + widths.stack);
	return widths;
}

_Static_assert(TAG_BYTES + 3 * WORD_BYTES + sizeof(uint32_t) <= EVENT_ROOM,
	"what is touched of the longest event");

/* Length in bytes of the event at `at`, of which two bytes must be readable; 0: not an event. */
static inline size_t event_bytes(const uint8_t *at)
{
	switch (at[0] & 7) {
	case 0:
		return 0;
	case ABI_EVENT_THREAD:
		return THREAD_BYTES;
	case ABI_EVENT_REALLOC_FREED:
	case ABI_EVENT_REALLOC_FAIL:
		return 1 + (1u << (at[0] >> 3 & 3));
	default:
		return widths_of(at[0], at[1]).event;
	}
}
