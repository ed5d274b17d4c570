/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/cfa.h"

#include <string.h>

/* DWARF numbers of the registers that a walk needs. */
enum { REG_RBP = 6, REG_RSP = 7, REG_RA = 16 };

/* The first three hold an operand in their low six bits. */
enum {
	CFA_ADVANCE_LOC = 0x40,
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_PACKED_OP = 0xc0,
	CFA_PACKED_OPERAND = 0x3f,

	CFA_NOP = 0x00,
	CFA_SET_LOC = 0x01,
	CFA_ADVANCE_LOC1 = 0x02,
	CFA_ADVANCE_LOC2 = 0x03,
	CFA_ADVANCE_LOC4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER_RULE = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION_RULE = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
	CFA_OPCODES = 0x30,
};

/* Opcodes of the expressions that heaptap recognises. */
enum {
	OP_DEREF = 0x06,
	OP_AND = 0x1a,
	OP_PLUS = 0x22,
	OP_SHL = 0x24,
	OP_GE = 0x2a,
	OP_LIT0 = 0x30,
	OP_BREG_RBP = 0x76,
	OP_BREG_RSP = 0x77,
	OP_BREG_RIP = 0x80,
};

enum operand {
	UNKNOWN, /* as the first operand: the opcode is unknown */
	NONE,
	REG,
	OFFSET,
	FACTORED,  /* offset in units of data_align */
	SFACTORED, /* as FACTORED, signed */
	DELTA1,	   /* distance of 1, 2, 4 bytes in units of code_align */
	DELTA2,
	DELTA4,
	ADDRESS,
	BLOCK,
};

static const uint8_t operands[CFA_OPCODES][2] = {
	[CFA_NOP] = {NONE, NONE},
	[CFA_SET_LOC] = {ADDRESS, NONE},
	[CFA_ADVANCE_LOC1] = {DELTA1, NONE},
	[CFA_ADVANCE_LOC2] = {DELTA2, NONE},
	[CFA_ADVANCE_LOC4] = {DELTA4, NONE},
	[CFA_OFFSET_EXTENDED] = {REG, FACTORED},
	[CFA_RESTORE_EXTENDED] = {REG, NONE},
	[CFA_UNDEFINED] = {REG, NONE},
	[CFA_SAME_VALUE] = {REG, NONE},
	[CFA_REGISTER_RULE] = {REG, OFFSET},
	[CFA_REMEMBER_STATE] = {NONE, NONE},
	[CFA_RESTORE_STATE] = {NONE, NONE},
	[CFA_DEF_CFA] = {REG, OFFSET},
	[CFA_DEF_CFA_REGISTER] = {REG, NONE},
	[CFA_DEF_CFA_OFFSET] = {OFFSET, NONE},
	[CFA_DEF_CFA_EXPRESSION] = {BLOCK, NONE},
	[CFA_EXPRESSION_RULE] = {REG, BLOCK},
	[CFA_OFFSET_EXTENDED_SF] = {REG, SFACTORED},
	[CFA_DEF_CFA_SF] = {REG, SFACTORED},
	[CFA_DEF_CFA_OFFSET_SF] = {SFACTORED, NONE},
	[CFA_VAL_OFFSET] = {REG, FACTORED},
	[CFA_VAL_OFFSET_SF] = {REG, SFACTORED},
	[CFA_VAL_EXPRESSION] = {REG, BLOCK},
	[CFA_GNU_ARGS_SIZE] = {OFFSET, NONE},
	[CFA_GNU_NEGATIVE_OFFSET_EXTENDED] = {REG, FACTORED},
};

/* An instruction with its scaled operands. */
struct insn {
	uint8_t op;	/* without a packed operand */
	uint64_t first; /* register, distance or address */
	int64_t offset;
	struct bytes block;
};

static bool distance_scale(const struct eh_cie *cie, uint64_t units, struct insn *insn)
{
	return !__builtin_mul_overflow(units, cie->code_align, &insn->first);
}

static int64_t offset_scale(const struct eh_cie *cie, uint64_t units)
{
	return (int64_t)(units * (uint64_t)cie->data_align);
}

static bool operand_take(struct cfa_run *run, enum operand operand, struct insn *insn)
{
	struct bytes *in = &run->program;
	uint8_t byte;
	uint16_t half;
	uint32_t word;
	uint64_t wide;
	int64_t narrow;
	const uint8_t *at;

	switch (operand) {
	case NONE:
		return true;
	case REG:
		return bytes_uleb(in, &insn->first);
	case OFFSET:
	case FACTORED:
		if (!bytes_uleb(in, &wide))
			return false;
		insn->offset = operand == OFFSET ? (int64_t)wide : offset_scale(run->cie, wide);
		return true;
	case SFACTORED:
		if (!bytes_sleb(in, &narrow))
			return false;
		insn->offset = offset_scale(run->cie, (uint64_t)narrow);
		return true;
	case DELTA1:
		return bytes_u8(in, &byte) && distance_scale(run->cie, byte, insn);
	case DELTA2:
		return bytes_u16(in, &half) && distance_scale(run->cie, half, insn);
	case DELTA4:
		return bytes_u32(in, &word) && distance_scale(run->cie, word, insn);
	case ADDRESS:
		return eh_pointer(in, run->section, run->cie->pointer_encoding, &insn->first);
	case BLOCK:
		if (!bytes_uleb(in, &wide) || !bytes_take(in, wide, &at))
			return false;
		insn->block = bytes_of(at, wide);
		return true;
	case UNKNOWN:
		return false;
	}
	return false;
}

static bool insn_take(struct cfa_run *run, struct insn *ret)
{
	uint8_t byte;
	if (!bytes_u8(&run->program, &byte))
		return false;
	uint8_t packed = byte & CFA_PACKED_OP;
	if (packed) {
		ret->op = packed;
		ret->first = byte & CFA_PACKED_OPERAND;
		if (packed == CFA_ADVANCE_LOC)
			return distance_scale(run->cie, ret->first, ret);
		return packed == CFA_RESTORE || operand_take(run, FACTORED, ret);
	}
	ret->op = byte;
	return byte < CFA_OPCODES && operand_take(run, operands[byte][0], ret) &&
	       operand_take(run, operands[byte][1], ret);
}

static struct cfa_place *place_of(struct cfa_state *state, uint64_t reg)
{
	return reg == REG_RBP	? &state->rbp
	       : reg == REG_RSP ? &state->rsp
	       : reg == REG_RA	? &state->ra
				: NULL;
}

static void place_set(
	struct cfa_state *state, uint64_t reg, enum cfa_place_kind kind, int64_t offset)
{
	struct cfa_place *place = place_of(state, reg);
	if (place)
		*place = (struct cfa_place){.kind = kind, .offset = offset};
}

static void place_restore(struct cfa_run *run, uint64_t reg)
{
	struct cfa_place *place = place_of(&run->state, reg);
	if (place)
		*place = *place_of(&run->initial, reg);
}

static bool block_equals(struct bytes block, const uint8_t *data, size_t length)
{
	return bytes_left(&block) == length && memcmp(block.at, data, length) == 0;
}

static void place_set_expression(struct cfa_state *state, uint64_t reg, struct bytes block)
{
	static const uint8_t at_rbp[] = {OP_BREG_RBP, 0};
	bool known = block_equals(block, at_rbp, sizeof(at_rbp));
	place_set(state, reg, known ? CFA_PLACE_AT_RBP : CFA_PLACE_OTHER, 0);
}

static bool expression_is_drap(struct bytes block, int64_t *ret_offset)
{
	uint8_t op;
	return bytes_u8(&block, &op) && op == OP_BREG_RBP && bytes_sleb(&block, ret_offset) &&
	       bytes_u8(&block, &op) && op == OP_DEREF && !bytes_left(&block);
}

static bool expression_is_plt(struct bytes block, int64_t *ret_threshold)
{
	static const uint8_t head[] = {OP_BREG_RSP, 8, OP_BREG_RIP, 0, OP_LIT0 + 15, OP_AND};
	static const uint8_t tail[] = {OP_GE, OP_LIT0 + 3, OP_SHL, OP_PLUS};
	const uint8_t *at = block.at;
	if (bytes_left(&block) != sizeof(head) + 1 + sizeof(tail) ||
		memcmp(at, head, sizeof(head)) != 0 ||
		memcmp(at + sizeof(head) + 1, tail, sizeof(tail)) != 0)
		return false;
	*ret_threshold = at[sizeof(head)] - OP_LIT0;
	return *ret_threshold >= 0 && *ret_threshold <= 16;
}

static void cfa_set_expression(struct cfa_state *state, struct bytes block)
{
	/* *(rsp + offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP])) */
	static const uint8_t ucontext[] = {OP_BREG_RSP, 0xa0, 0x01, OP_DEREF};
	if (expression_is_drap(block, &state->operand))
		state->kind = CFA_DRAP;
	else if (expression_is_plt(block, &state->operand))
		state->kind = CFA_PLT;
	else if (block_equals(block, ucontext, sizeof(ucontext)))
		state->kind = CFA_UCONTEXT;
	else
		state->kind = CFA_OTHER;
}

static bool state_remember(struct cfa_run *run)
{
	if (run->remembered_count == CFA_REMEMBER_MAX)
		return false;
	run->remembered[run->remembered_count++] = run->state;
	return true;
}

static bool state_restore(struct cfa_run *run)
{
	if (!run->remembered_count)
		return false;
	run->state = run->remembered[--run->remembered_count];
	return true;
}

/* Executes one instruction; moves `*at` if it advances the location. */
static bool insn_execute(struct cfa_run *run, const struct insn *insn, uint64_t *at)
{
	struct cfa_state *state = &run->state;

	switch (insn->op) {
	case CFA_ADVANCE_LOC:
	case CFA_ADVANCE_LOC1:
	case CFA_ADVANCE_LOC2:
	case CFA_ADVANCE_LOC4:
		return !__builtin_add_overflow(*at, insn->first, at);
	case CFA_SET_LOC:
		if (insn->first < *at)
			return false;
		*at = insn->first;
		return true;
	case CFA_OFFSET:
	case CFA_OFFSET_EXTENDED:
	case CFA_OFFSET_EXTENDED_SF:
		place_set(state, insn->first, CFA_PLACE_AT_CFA, insn->offset);
		return true;
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		place_set(state, insn->first, CFA_PLACE_AT_CFA, (int64_t) - (uint64_t)insn->offset);
		return true;
	case CFA_RESTORE:
	case CFA_RESTORE_EXTENDED:
		place_restore(run, insn->first);
		return true;
	case CFA_UNDEFINED:
		place_set(state, insn->first, CFA_PLACE_UNDEFINED, 0);
		return true;
	case CFA_SAME_VALUE:
		place_set(state, insn->first, CFA_PLACE_SAME, 0);
		return true;
	case CFA_REGISTER_RULE:
	case CFA_VAL_OFFSET:
	case CFA_VAL_OFFSET_SF:
	case CFA_VAL_EXPRESSION:
		place_set(state, insn->first, CFA_PLACE_OTHER, 0);
		return true;
	case CFA_EXPRESSION_RULE:
		place_set_expression(state, insn->first, insn->block);
		return true;
	case CFA_DEF_CFA:
	case CFA_DEF_CFA_SF:
		state->kind = CFA_REGISTER;
		state->reg = insn->first;
		state->offset = insn->offset;
		return true;
	case CFA_DEF_CFA_REGISTER:
		state->kind = CFA_REGISTER;
		state->reg = insn->first;
		return true;
	case CFA_DEF_CFA_OFFSET:
	case CFA_DEF_CFA_OFFSET_SF:
		state->offset = insn->offset;
		return true;
	case CFA_DEF_CFA_EXPRESSION:
		cfa_set_expression(state, insn->block);
		return true;
	case CFA_REMEMBER_STATE:
		return state_remember(run);
	case CFA_RESTORE_STATE:
		return state_restore(run);
	case CFA_NOP:
	case CFA_GNU_ARGS_SIZE:
		return true;
	default:
		return false;
	}
}

/* Runs until an instruction moves `*at`, or to the end of the program. */
static bool program_run(struct cfa_run *run, uint64_t *at)
{
	uint64_t start = *at;
	while (*at == start && bytes_left(&run->program)) {
		struct insn insn;
		if (!insn_take(run, &insn) || !insn_execute(run, &insn, at))
			return false;
	}
	return true;
}

static bool words_of(int64_t offset, int *ret)
{
	if (offset % 8 != 0 || offset / 8 < INT16_MIN || offset / 8 > INT16_MAX)
		return false;
	*ret = (int)(offset / 8);
	return true;
}

static bool rbp_slot_of(const struct cfa_place *rbp, unsigned *ret)
{
	int words = 0;
	/* The caller cannot need a value that is undefined, so keeping it is harmless. */
	bool is_kept = rbp->kind == CFA_PLACE_DEFAULT || rbp->kind == CFA_PLACE_SAME ||
		       rbp->kind == CFA_PLACE_UNDEFINED;
	if (!is_kept && (rbp->kind != CFA_PLACE_AT_CFA || !words_of(rbp->offset, &words) ||
				words >= 0 || words < -ABI_RBP_SLOT_MAX))
		return false;
	*ret = (unsigned)-words;
	return true;
}

static bool rule_of(const struct cfa_state *state, bool signal_frame, uint32_t *ret)
{
	int words;
	unsigned slot;

	if (state->ra.kind == CFA_PLACE_UNDEFINED) {
		*ret = abi_rule_make(ABI_RULE_END, 0, 0);
		return true;
	}
	if (state->kind == CFA_UCONTEXT && signal_frame) {
		*ret = abi_rule_make(ABI_RULE_SIGNAL, 0, 0);
		return true;
	}
	if (state->ra.kind != CFA_PLACE_AT_CFA || state->ra.offset != -8 ||
		state->rsp.kind != CFA_PLACE_DEFAULT)
		return false;

	if (state->kind == CFA_DRAP) {
		if (!words_of(state->operand, &words) || words >= 0 ||
			state->rbp.kind != CFA_PLACE_AT_RBP)
			return false;
		*ret = abi_rule_make(ABI_RULE_DRAP, words, 0);
		return true;
	}
	if (!rbp_slot_of(&state->rbp, &slot))
		return false;
	if (state->kind == CFA_PLT && slot == 0) {
		*ret = abi_rule_make(ABI_RULE_PLT, (int)state->operand, 0);
		return true;
	}
	if (state->kind != CFA_REGISTER || (state->reg != REG_RSP && state->reg != REG_RBP) ||
		!words_of(state->offset, &words))
		return false;
	*ret = abi_rule_make(state->reg == REG_RSP ? ABI_RULE_RSP : ABI_RULE_RBP, words, slot);
	return true;
}

bool cfa_state_of_cie(
	const struct eh_section *section, const struct eh_cie *cie, struct cfa_state *ret)
{
	struct cfa_run run;
	struct eh_fde none = {.lo = 0, .hi = 0, .program = cie->program, .cie = cie};
	uint64_t at = 0;
	*ret = (struct cfa_state){0};
	cfa_run_start(&run, section, &none, ret);
	if (!program_run(&run, &at) || at != 0)
		return false;
	*ret = run.state;
	return true;
}

void cfa_run_start(struct cfa_run *run, const struct eh_section *section, const struct eh_fde *fde,
	const struct cfa_state *initial)
{
	run->section = section;
	run->cie = fde->cie;
	run->program = fde->program;
	run->lo = fde->lo;
	run->hi = fde->hi;
	run->malformed = false;
	run->initial = run->state = *initial;
	run->remembered_count = 0;
}

bool cfa_run_next(struct cfa_run *run, struct cfa_row *ret)
{
	if (run->lo >= run->hi)
		return false;
	uint64_t at = run->lo;
	if (!run->malformed)
		run->malformed = !program_run(run, &at);
	ret->lo = run->lo;
	ret->hi = at == run->lo || at > run->hi || run->malformed ? run->hi : at;
	ret->rule = ABI_RULE_NONE;
	ret->expressible =
		!run->malformed && rule_of(&run->state, run->cie->signal_frame, &ret->rule);
	run->lo = ret->hi;
	return true;
}
