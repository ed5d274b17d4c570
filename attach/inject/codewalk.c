/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/codewalk.h"

#ifdef HEAPTAP_ZYDIS

#include <Zydis/Zydis.h>

#define BLOCKS_MAX   2048u
#define STEPS_MAX    16384u /* instructions */
#define WINDOW_BYTES 256u

struct walk {
	const struct codewalk *codewalk;
	ZydisDecoder decoder;
	uint8_t window[WINDOW_BYTES];
	raddr_t window_at;
	size_t window_bytes;
	raddr_t block[BLOCKS_MAX]; /* the first `done` of them were looked at */
	size_t count, done;
	unsigned steps;
	bool cut;
};

static void add_block(struct walk *walk, raddr_t at)
{
	for (size_t i = 0; i < walk->count; i++)
		if (walk->block[i] == at)
			return;
	walk->cut |= walk->count == BLOCKS_MAX;
	if (walk->count < BLOCKS_MAX)
		walk->block[walk->count++] = at;
}

static bool decode(struct walk *walk, raddr_t at, ZydisDecodedInstruction *ret_head,
	ZydisDecodedOperand ret_operand[ZYDIS_MAX_OPERAND_COUNT])
{
	size_t skip = at - walk->window_at;
	if (skip >= walk->window_bytes ||
		walk->window_bytes - skip < ZYDIS_MAX_INSTRUCTION_LENGTH) {
		walk->window_bytes = walk->codewalk->read(
			walk->codewalk->read_context, at, walk->window, WINDOW_BYTES);
		walk->window_at = at;
		skip = 0;
	}
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&walk->decoder, walk->window + skip,
		walk->window_bytes - skip, ret_head, ret_operand));
}

static enum codewalk_kind kind_of(const ZydisDecodedInstruction *head)
{
	ZydisInstructionCategory category = head->meta.category;
	if (category == ZYDIS_CATEGORY_UNCOND_BR)
		return CODEWALK_JUMP;
	if (category == ZYDIS_CATEGORY_COND_BR)
		return CODEWALK_BRANCH;
	if (category == ZYDIS_CATEGORY_CALL)
		return CODEWALK_CALL;
	bool ends = category == ZYDIS_CATEGORY_RET || category == ZYDIS_CATEGORY_INTERRUPT ||
		    head->mnemonic == ZYDIS_MNEMONIC_UD2;
	return ends ? CODEWALK_END : CODEWALK_PLAIN;
}

static bool leads_on(enum codewalk_kind kind)
{
	return kind == CODEWALK_JUMP || kind == CODEWALK_BRANCH || kind == CODEWALK_CALL;
}

static void read_target(const ZydisDecodedInstruction *head, const ZydisDecodedOperand *operand,
	struct codewalk_instruction *ret)
{
	ZyanU64 to;
	ret->through_word = operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
			    operand->mem.base == ZYDIS_REGISTER_RIP;
	ret->direct = operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
		      ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(head, operand, ret->at, &to));
	if (ret->direct)
		ret->to = to;
}

/* From `at` to where nothing follows: has the visitor found what it looks for? Where it may go on
 * is added to the blocks. */
static bool visit_block(struct walk *walk, raddr_t at)
{
	const struct codewalk *codewalk = walk->codewalk;
	for (; walk->steps > 0; walk->steps--) {
		ZydisDecodedInstruction head;
		ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
		if (!decode(walk, at, &head, operand))
			break;
		struct codewalk_instruction instruction = {
			.at = at, .bytes = head.length, .kind = kind_of(&head)};
		if (leads_on(instruction.kind))
			read_target(&head, &operand[0], &instruction);
		enum codewalk_answer answer =
			codewalk->visit(codewalk->visit_context, &instruction);
		if (answer == CODEWALK_FOUND)
			return true;
		if (instruction.direct && answer == CODEWALK_FOLLOW)
			add_block(walk, instruction.to);
		if (instruction.kind == CODEWALK_JUMP || instruction.kind == CODEWALK_END ||
			answer == CODEWALK_LEAVE)
			return false;
		at += head.length;
	}
	walk->cut = true;
	return false;
}

enum codewalk_result codewalk_run(const struct codewalk *codewalk, raddr_t entry)
{
	struct walk walk = {.codewalk = codewalk, .steps = STEPS_MAX};
	ZydisDecoderInit(&walk.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	add_block(&walk, entry);
	while (walk.done < walk.count)
		if (visit_block(&walk, walk.block[walk.done++]))
			return CODEWALK_HIT;
	return walk.cut ? CODEWALK_CUT : CODEWALK_SEEN;
}

#else

enum codewalk_result codewalk_run(const struct codewalk *codewalk, raddr_t entry)
{
	(void)codewalk;
	(void)entry;
	return CODEWALK_CUT;
}

#endif
