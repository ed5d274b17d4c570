/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/callees.h"

#ifdef HEAPTAP_ZYDIS

#include "attach/inject/instruction.h"

/* The address of the word in call *word(%rip) or jmp *word(%rip); false: the instruction is
 * neither. */
static bool word_target(const struct instruction *i, raddr_t at, raddr_t *ret)
{
	const ZydisDecodedOperand *operand = &i->operand[0];
	return (i->head.meta.category == ZYDIS_CATEGORY_CALL ||
		       i->head.meta.category == ZYDIS_CATEGORY_UNCOND_BR) &&
	       operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       operand->mem.base == ZYDIS_REGISTER_RIP && instruction_address(i, operand, at, ret);
}

/* Does the instruction write memory: the thread's own (errno, by `own`), or other memory? */
static bool writes_memory(const struct instruction *i, bool own)
{
	for (size_t n = 0; n < i->head.operand_count; n++)
		if (i->operand[n].type == ZYDIS_OPERAND_TYPE_MEMORY &&
			i->operand[n].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
			(i->operand[n].mem.segment == ZYDIS_REGISTER_FS) == own)
			return true;
	return false;
}

static bool does_more(const struct instruction *i)
{
	ZydisInstructionCategory category = i->head.meta.category;
	return category == ZYDIS_CATEGORY_CALL || category == ZYDIS_CATEGORY_SYSCALL ||
	       category == ZYDIS_CATEGORY_INTERRUPT || writes_memory(i, false);
}

static bool writes_argument(const struct instruction *i, unsigned arity)
{
	static const ZydisRegister order[] = {ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RSI,
		ZYDIS_REGISTER_RDX, ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_R8, ZYDIS_REGISTER_R9};
	for (unsigned a = 0; a < arity && a < HT_ARRAY_SIZE(order); a++)
		if (instruction_writes(i, order[a]))
			return true;
	return false;
}

raddr_t callees_sole(
	const uint8_t *code, raddr_t entry, size_t bytes, unsigned arity, bool *ret_same)
{
	ZydisDecoder decoder;
	struct instruction i;
	raddr_t to, found = 0;
	instruction_decoder(&decoder);
	*ret_same = true;
	for (size_t at = 0; at < bytes; at += i.head.length) {
		if (!instruction_read(&decoder, code + at, bytes - at, &i) || does_more(&i))
			return 0;
		*ret_same &= !writes_argument(&i, arity) && !writes_memory(&i, true) &&
			     i.head.meta.category != ZYDIS_CATEGORY_RET;
		if (i.head.meta.category != ZYDIS_CATEGORY_UNCOND_BR &&
			i.head.meta.category != ZYDIS_CATEGORY_COND_BR)
			continue;
		if (!instruction_target(&i, entry + at, &to))
			return 0;
		if (to - entry < bytes)
			continue;
		if (found && found != to)
			return 0;
		found = to;
	}
	return found;
}

bool callees_any(const uint8_t *code, raddr_t entry, size_t bytes,
	bool (*is_seen)(void *context, raddr_t addr, bool is_word), void *context)
{
	ZydisDecoder decoder;
	struct instruction i;
	raddr_t to;
	instruction_decoder(&decoder);
	for (size_t at = 0; at < bytes; at += i.head.length) {
		if (!instruction_read(&decoder, code + at, bytes - at, &i))
			return false;
		bool is_word = word_target(&i, entry + at, &to);
		if ((is_word || instruction_target(&i, entry + at, &to)) &&
			is_seen(context, to, is_word))
			return true;
	}
	return false;
}

#else

raddr_t callees_sole(
	const uint8_t *code, raddr_t entry, size_t bytes, unsigned arity, bool *ret_same)
{
	(void)code;
	(void)entry;
	(void)bytes;
	(void)arity;
	*ret_same = false;
	return 0;
}

bool callees_any(const uint8_t *code, raddr_t entry, size_t bytes,
	bool (*is_seen)(void *context, raddr_t addr, bool is_word), void *context)
{
	(void)code;
	(void)entry;
	(void)bytes;
	(void)is_seen;
	(void)context;
	return false;
}

#endif
