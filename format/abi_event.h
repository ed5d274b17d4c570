/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoding of events: in the buffer of a thread's slot (abi_control.h), on the socket, and as a
 * reader of the trace returns them. In the file the bytes are sorted by field (columns.h).
 *
 * An event is   tag0  [tag1]  [time]  [addr]  [size]  [stack]   , all little-endian:
 *
 *      tag0  bits 0-2 kind, bits 3-4 length code of time, bits 5-6 length code of addr
 *      tag1  bits 0-1 length code of size, bits 2-3 length code of stack, bits 4-7 enum abi_hook;
 *            without stack, bit 2 (ABI_EVENT_NO_SIZE) says that there is no size either
 *      time  since the previous event of this buffer, in units of ABI_TIME_UNIT TSC cycles; the
 *            first event of a buffer counts from 0. Never negative: the agent clamps it
 *      addr  length code 0: the index of the address in the table of recent addresses; otherwise
 *            the folded difference (abi_addr_fold) to the previous address of this buffer, which
 *            starts at 0
 *      size  requested bytes (ALLOC, REALLOC_END), or usable bytes (FREE, REALLOC_BEGIN). Usable
 *            bytes that are 0 or left out are unknown. A free of a block that was allocated in this
 *            stream shortly before has no size: the reader knows the block from its allocation
 *      stack node id (abi_control.h); 0: no stack
 *
 * Length codes: time, addr, size: 1, 2, 4, 8 bytes; stack: 1, 2, 3, 4 bytes.
 *
 * The table of recent addresses is empty (all 0) at the start of a buffer. Each even address of an
 * event is stored at its abi_recent_index. Most blocks are freed soon, and allocators reuse the
 * last freed block first: one byte, the index, then encodes the address.
 *
 * Every buffer starts with a THREAD event. Frees are stamped before the real call, allocations
 * after.
 *
 * A change of a mapping is encoded as ABI_WORDS words in order, each of them
 *
 *      tag0 (kind THREAD, above it in bits 3-7 which word: 1 ... ABI_WORDS) | u64
 *
 * and a THREAD event after the last. Older readers take words for THREAD events without events of
 * their own. Words leave the deltas unchanged: the previous time and the previous address stay.
 */
#pragma once

#include "format/base.h"

enum abi_event_kind {
	/* tag0, u32 tid, u32 nesting level: the next events are this thread's */
	ABI_EVENT_THREAD = 1,
	ABI_EVENT_ALLOC,	 /* tag1, time, addr, size, stack */
	ABI_EVENT_FREE,		 /* tag1 (no stack), time, addr, size = usable */
	ABI_EVENT_REALLOC_BEGIN, /* fields as FREE; the old block ends if the call succeeds */
	ABI_EVENT_REALLOC_END,	 /* fields as ALLOC, of the new block: the call succeeded */
	ABI_EVENT_REALLOC_FREED, /* tag0, time: the call freed the block (size 0, result NULL) */
	ABI_EVENT_REALLOC_FAIL,	 /* tag0, time: the call failed; the block of this stream's last
				    BEGIN stays live */
	ABI_EVENT_MAPPING,	 /* the decoder returns this kind for words; tags never hold it */
};

/* Part of the trace format: append only. Failed calls are not recorded. */
enum abi_mapping_call {
	ABI_CALL_MAP,	    /* stamped after the call; its protection and flags */
	ABI_CALL_UNMAP,	    /* stamped before */
	ABI_CALL_MOVE_FROM, /* mremap's old range, stamped before; empty when it stays mapped */
	ABI_CALL_MOVE_TO,   /* mremap's new range, stamped after; belongs to this stream's last
			       MOVE_FROM */
	ABI_CALL_ADVISE,    /* stamped after; flags: an advice that returns memory to the kernel */
	ABI_CALL_PROTECT,   /* stamped after; the new protection */
};

enum abi_word {
	ABI_WORD_TIME = 1, /* the TSC: a whole stamp */
	ABI_WORD_ADDR,
	ABI_WORD_LENGTH,
	ABI_WORD_CALL,	/* bits 0-31 stack, 32-39 enum abi_mapping_call, 40-47 protection */
	ABI_WORD_FLAGS, /* the call's flags, or advice */
};

#define ABI_WORDS	       5u
#define ABI_WORD_SHIFT	       3u /* position of the word's number in tag0 */
#define ABI_WORD_CALL_SHIFT    32u
#define ABI_WORD_PROTECT_SHIFT 40u

#define ABI_EVENT_MAX_BYTES 32u

/*
 * Stamps are rounded down to whole multiples of this. Passing an address from one thread to another
 * takes longer, so the later of two such events still has the later stamp. The time between two
 * events of a busy thread fits one byte.
 */
#define ABI_TIME_SHIFT 4u
#define ABI_TIME_UNIT  (1u << ABI_TIME_SHIFT)

#define ABI_EVENT_NO_SIZE 4u /* in tag1 of an event without stack */

static inline uint64_t abi_time_floor(uint64_t tsc)
{
	return tsc & -(uint64_t)ABI_TIME_UNIT;
}

#define ABI_RECENT_COUNT 256u

/* Fibonacci hashing (Knuth, The Art of Computer Programming, vol. 3, 6.4). */
static inline uint64_t abi_recent_index(uint64_t addr)
{
	return (addr >> 4) * 0x9e3779b97f4a7c15ull >> 56;
}

/* The lowest 4 bits of the difference, moved to the top; below them zigzag(difference >> 4), an
 * arithmetic shift. Blocks are 16-byte aligned, so a near block gives a small number, whether it is
 * above or below. */
static inline uint64_t abi_addr_fold(uint64_t delta)
{
	uint64_t steps = (uint64_t)((int64_t)delta >> 4);
	return (steps << 1 ^ -(steps >> 63)) | delta << 60;
}

static inline uint64_t abi_addr_unfold(uint64_t folded)
{
	uint64_t zigzag = folded << 4 >> 4;
	uint64_t steps = zigzag >> 1 ^ -(zigzag & 1);
	return steps << 4 | folded >> 60;
}

/* One socket message: this header, then bytes [position, position + length) of a slot's stream. */
#define ABI_MESSAGE_MAGIC 0x70617468u

struct abi_message {
	uint32_t magic;
	uint32_t slot;	   /* index */
	uint64_t position; /* stream position; always a buffer start */
	uint32_t length;   /* at most ABI_BUFFER_BYTES */
	uint32_t events;
};
