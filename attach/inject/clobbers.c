/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/clobbers.h"

#ifdef HEAPTAP_ZYDIS

#include <Zydis/Zydis.h>

#define BLOCKS_MAX   2048u
#define STEPS_MAX    16384u /* instructions */
#define WINDOW_BYTES 256u

struct walk {
	ZydisDecoder decoder;
	clobbers_read *read;
	void *context;
	uint8_t window[WINDOW_BYTES];
	raddr_t window_at;
	size_t window_bytes;
	raddr_t block[BLOCKS_MAX]; /* the first `done` of them were looked at */
	size_t count, done;
	unsigned steps;
};

static void add_block(struct walk *walk, raddr_t at)
{
	for (size_t i = 0; i < walk->count; i++)
		if (walk->block[i] == at)
			return;
	if (walk->count < BLOCKS_MAX)
		walk->block[walk->count++] = at;
}

static bool decode(struct walk *walk, raddr_t at, ZydisDecodedInstruction *ret_head,
	ZydisDecodedOperand ret_operand[ZYDIS_MAX_OPERAND_COUNT])
{
	size_t skip = at - walk->window_at;
	if (skip >= walk->window_bytes ||
		walk->window_bytes - skip < ZYDIS_MAX_INSTRUCTION_LENGTH) {
		walk->window_bytes = walk->read(walk->context, at, walk->window, WINDOW_BYTES);
		walk->window_at = at;
		skip = 0;
	}
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&walk->decoder, walk->window + skip,
		walk->window_bytes - skip, ret_head, ret_operand));
}

/* jmp *word(%rip): of the PLT, or in its place. One through a register or a table may stay within
 * the function. */
static bool is_through_word(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       operand->mem.base == ZYDIS_REGISTER_RIP;
}

/* From `at` to where nothing follows: is something unseen called? Where else it may go on is added
 * to the blocks. */
static bool block_calls_unseen(struct walk *walk, raddr_t at)
{
	for (; walk->steps > 0; walk->steps--) {
		ZydisDecodedInstruction head;
		ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
		ZyanU64 to;
		if (!decode(walk, at, &head, operand))
			return false;
		ZydisInstructionCategory category = head.meta.category;
		bool jumps = category == ZYDIS_CATEGORY_UNCOND_BR;
		bool calls = category == ZYDIS_CATEGORY_CALL;
		if (jumps || calls || category == ZYDIS_CATEGORY_COND_BR) {
			bool direct = operand[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
			if (!direct)
				return calls || is_through_word(&operand[0]);
			if (ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&head, &operand[0], at, &to)))
				add_block(walk, to);
		}
		if (jumps || category == ZYDIS_CATEGORY_RET ||
			category == ZYDIS_CATEGORY_INTERRUPT || head.mnemonic == ZYDIS_MNEMONIC_UD2)
			return false;
		at += head.length;
	}
	return false;
}

bool clobbers_all(clobbers_read *read, void *context, raddr_t entry)
{
	struct walk walk = {.read = read, .context = context, .steps = STEPS_MAX};
	ZydisDecoderInit(&walk.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	add_block(&walk, entry);
	while (walk.done < walk.count && walk.steps > 0)
		if (block_calls_unseen(&walk, walk.block[walk.done++]))
			return true;
	return false;
}

#else

bool clobbers_all(clobbers_read *read, void *context, raddr_t entry)
{
	(void)read;
	(void)context;
	(void)entry;
	return false;
}

#endif
