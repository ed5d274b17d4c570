/* SPDX-License-Identifier: Apache-2.0
 *
 * One instruction of x86-64, decoded by Zydis. Only for builds with HEAPTAP_ZYDIS.
 */
#pragma once

#include <Zydis/Zydis.h>

#include "format/base.h"

struct instruction {
	ZydisDecodedInstruction head;
	ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
};

static inline void instruction_decoder(ZydisDecoder *ret)
{
	ZydisDecoderInit(ret, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

/* Decodes the instruction at the beginning of `code`; false: there is none. */
static inline bool instruction_read(
	const ZydisDecoder *decoder, const uint8_t *code, size_t bytes, struct instruction *ret)
{
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, code, bytes, &ret->head, ret->operand));
}

/* The address that an operand relative to rip refers to; `at`: address of the instruction. False:
 * the operand has no such address. */
static inline bool instruction_address(
	const struct instruction *i, const ZydisDecodedOperand *operand, raddr_t at, raddr_t *ret)
{
	ZyanU64 to;
	bool known = ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&i->head, operand, at, &to));
	if (known)
		*ret = to;
	return known;
}

/* The destination of a direct call or jump; false: the instruction is neither. */
static inline bool instruction_target(const struct instruction *i, raddr_t at, raddr_t *ret)
{
	const ZydisDecodedOperand *operand = &i->operand[0];
	return i->head.operand_count_visible && operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
	       operand->imm.is_relative && instruction_address(i, operand, at, ret);
}

/* The register of 64 bits that `part` is, or is a part of. */
static inline ZydisRegister instruction_whole(ZydisRegister part)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, part);
}

/* Does the instruction write to the register `whole` of 64 bits, or to a part of it? */
static inline bool instruction_writes(const struct instruction *i, ZydisRegister whole)
{
	for (size_t n = 0; n < i->head.operand_count; n++)
		if (i->operand[n].type == ZYDIS_OPERAND_TYPE_REGISTER &&
			i->operand[n].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
			instruction_whole(i->operand[n].reg.value) == whole)
			return true;
	return false;
}
