/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/codewalk.h"

#ifdef HEAPTAP_ZYDIS

#include <sys/syscall.h>

#include "attach/inject/instruction.h"

#define BLOCKS_MAX   2048u
#define STEPS_MAX    16384u /* instructions */
#define PLACES	     (4u * BLOCKS_MAX)
#define WINDOW_BYTES 256u

#define NO_CALL	  ((size_t)-1)
#define NO_NUMBER ((int64_t)-1)

/* The function where the walk begins, and those that it calls. */
struct function {
	raddr_t entry;
	bool returns;
};

struct block {
	raddr_t at;
	size_t function; /* the function in which the walk came to the block */
	size_t behind;	 /* the function that must return before the block is reached; or NO_CALL */
	bool done;
};

struct walk {
	const struct codewalk *codewalk;
	ZydisDecoder decoder;
	uint8_t window[WINDOW_BYTES];
	raddr_t window_at;
	size_t window_bytes;
	struct block block[BLOCKS_MAX];
	uint16_t place[PLACES]; /* index of a block plus one, by hash; 0: none */
	struct function function[BLOCKS_MAX];
	size_t count, functions;
	unsigned steps;
	bool cut;
};

static void add_block(struct walk *walk, raddr_t at, size_t function, size_t behind)
{
	size_t place = (at * 31 + function) % PLACES;
	for (; walk->place[place]; place = (place + 1) % PLACES) {
		struct block *block = &walk->block[walk->place[place] - 1];
		if (block->at != at || block->function != function)
			continue;
		if (behind == NO_CALL)
			block->behind = NO_CALL;
		return;
	}
	walk->cut |= walk->count == BLOCKS_MAX;
	if (walk->count == BLOCKS_MAX)
		return;
	walk->block[walk->count++] =
		(struct block){.at = at, .function = function, .behind = behind};
	walk->place[place] = (uint16_t)walk->count;
}

/* Returns the function's index; NO_CALL: there are too many. */
static size_t add_function(struct walk *walk, raddr_t entry)
{
	for (size_t i = 0; i < walk->functions; i++)
		if (walk->function[i].entry == entry)
			return i;
	if (walk->functions == BLOCKS_MAX) {
		walk->cut = true;
		return NO_CALL;
	}
	walk->function[walk->functions] = (struct function){.entry = entry};
	add_block(walk, entry, walk->functions, NO_CALL);
	return walk->functions++;
}

static bool decode(struct walk *walk, raddr_t at, struct instruction *ret)
{
	size_t skip = at - walk->window_at;
	if (skip >= walk->window_bytes ||
		walk->window_bytes - skip < ZYDIS_MAX_INSTRUCTION_LENGTH) {
		walk->window_bytes = walk->codewalk->read(
			walk->codewalk->read_context, at, walk->window, WINDOW_BYTES);
		walk->window_at = at;
		skip = 0;
	}
	return instruction_read(
		&walk->decoder, walk->window + skip, walk->window_bytes - skip, ret);
}

static bool is_trap(const ZydisDecodedInstruction *head)
{
	/* C libraries end a process that cannot go on by such an instruction. */
	if (head->mnemonic == ZYDIS_MNEMONIC_HLT)
		return true;
	return head->mnemonic == ZYDIS_MNEMONIC_UD0 || head->mnemonic == ZYDIS_MNEMONIC_UD1 ||
	       head->mnemonic == ZYDIS_MNEMONIC_UD2 ||
	       head->meta.category == ZYDIS_CATEGORY_INTERRUPT;
}

/* `number`: the system call that the instruction would make, if known. */
static enum codewalk_kind kind_of(const ZydisDecodedInstruction *head, int64_t number)
{
	ZydisInstructionCategory category = head->meta.category;
	if (category == ZYDIS_CATEGORY_UNCOND_BR)
		return CODEWALK_JUMP;
	if (category == ZYDIS_CATEGORY_COND_BR)
		return CODEWALK_BRANCH;
	if (category == ZYDIS_CATEGORY_CALL)
		return CODEWALK_CALL;
	if (category == ZYDIS_CATEGORY_SYSCALL) {
		bool ends = number == SYS_exit || number == SYS_exit_group ||
			    number == SYS_rt_sigreturn;
		return ends ? CODEWALK_END
			    : (number == NO_NUMBER ? CODEWALK_SYSTEM : CODEWALK_PLAIN);
	}
	return category == ZYDIS_CATEGORY_RET || is_trap(head) ? CODEWALK_END : CODEWALK_PLAIN;
}

/* Returns the number in the register for system calls behind the instruction; `number`: before
 * it. */
static int64_t number_behind(const struct instruction *i, int64_t number)
{
	const ZydisDecodedOperand *operand = i->operand;
	if (i->head.meta.category == ZYDIS_CATEGORY_CALL)
		return NO_NUMBER;
	if (!instruction_writes(i, ZYDIS_REGISTER_RAX))
		return number;
	return i->head.mnemonic == ZYDIS_MNEMONIC_MOV && operand[0].size >= 32 &&
			       operand[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE
		       ? operand[1].imm.value.s
		       : NO_NUMBER;
}

static bool leads_on(enum codewalk_kind kind)
{
	return kind == CODEWALK_JUMP || kind == CODEWALK_BRANCH || kind == CODEWALK_CALL;
}

static void read_target(const struct instruction *i, struct codewalk_instruction *ret)
{
	const ZydisDecodedOperand *operand = &i->operand[0];
	ret->through_word = operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
			    operand->mem.base == ZYDIS_REGISTER_RIP &&
			    instruction_address(i, operand, ret->at, &ret->to);
	ret->through_descriptor = operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
				  operand->mem.base == ZYDIS_REGISTER_RAX &&
				  operand->mem.index == ZYDIS_REGISTER_NONE &&
				  !operand->mem.disp.value;
	ret->direct = operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
		      instruction_address(i, operand, ret->at, &ret->to);
}

/* --- variables that branches depend on --- */

/* The known values of one register and of the zero flag behind an instruction. */
struct known {
	ZydisRegister whole; /* ZYDIS_REGISTER_NONE: no register is known */
	uint64_t value;
	bool has_zero, zero;
};

static uint64_t cut_to(uint64_t value, unsigned bits)
{
	return bits < 64 ? value & ((UINT64_C(1) << bits) - 1) : value;
}

/* The value of an operand: a number, the known register, or a variable at a known address. */
static bool value_of(struct walk *walk, const struct instruction *i, raddr_t at,
	const ZydisDecodedOperand *operand, const struct known *known, uint64_t *ret)
{
	uint64_t value = 0;
	raddr_t addr = 0;
	unsigned bits = operand->size;
	if (operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		*ret = operand->imm.value.u;
		return true;
	}
	if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		*ret = cut_to(known->value, bits);
		return known->whole != ZYDIS_REGISTER_NONE &&
		       instruction_whole(operand->reg.value) == known->whole &&
		       operand->reg.value != ZYDIS_REGISTER_AH;
	}
	if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY || bits > 64 || bits % 8 ||
		operand->mem.index != ZYDIS_REGISTER_NONE ||
		operand->mem.segment == ZYDIS_REGISTER_FS ||
		operand->mem.segment == ZYDIS_REGISTER_GS)
		return false;
	if (operand->mem.base == ZYDIS_REGISTER_RIP) {
		if (!instruction_address(i, operand, at, &addr))
			return false;
	} else if (operand->mem.base == known->whole && known->whole != ZYDIS_REGISTER_NONE) {
		addr = known->value + (uint64_t)operand->mem.disp.value;
	} else {
		return false;
	}
	const struct codewalk *codewalk = walk->codewalk;
	if (codewalk->read(codewalk->read_context, addr, (uint8_t *)&value, bits / 8) != bits / 8)
		return false;
	*ret = value;
	return true;
}

static bool writes_zero_flag(const ZydisDecodedInstruction *head)
{
	const ZydisAccessedFlags *flags = head->cpu_flags;
	return flags && (flags->modified | flags->set_0 | flags->set_1 | flags->undefined) &
				ZYDIS_CPUFLAG_ZF;
}

/* Updates `known` from before the instruction to behind it. */
static void learn(struct walk *walk, const struct instruction *i, raddr_t at, struct known *known)
{
	const ZydisDecodedInstruction *head = &i->head;
	const ZydisDecodedOperand *operand = i->operand;
	uint64_t left, right;
	bool compares = head->mnemonic == ZYDIS_MNEMONIC_CMP,
	     tests = head->mnemonic == ZYDIS_MNEMONIC_TEST;
	bool loads = head->mnemonic == ZYDIS_MNEMONIC_MOV || head->mnemonic == ZYDIS_MNEMONIC_MOVZX;
	bool has =
		(compares || tests || loads) && value_of(walk, i, at, &operand[1], known, &right);
	if (head->meta.category == ZYDIS_CATEGORY_CALL) {
		*known = (struct known){.whole = ZYDIS_REGISTER_NONE};
		return;
	}
	if (compares || tests) {
		known->has_zero = has && value_of(walk, i, at, &operand[0], known, &left);
		unsigned bits = operand[0].size;
		known->zero = known->has_zero &&
			      cut_to(compares ? left - right : left & right, bits) == 0;
		return;
	}
	if (writes_zero_flag(head))
		known->has_zero = false;
	if (loads && has && operand[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		operand[0].size >= 32) {
		known->whole = instruction_whole(operand[0].reg.value);
		known->value = right;
	} else if (instruction_writes(i, known->whole)) {
		known->whole = ZYDIS_REGISTER_NONE;
	}
}

/* Information that the registers add to an instruction: where it leads to, or which variable it
 * uses. */
static void complete(struct walk *walk, const struct instruction *i, const struct known *known,
	struct codewalk_instruction *ret)
{
	uint64_t to;
	if (leads_on(ret->kind)) {
		ret->known = !ret->direct && !ret->through_word &&
			     value_of(walk, i, ret->at, &i->operand[0], known, &to);
		if (ret->known)
			ret->to = to;
		return;
	}
	for (size_t n = 0; n < i->head.operand_count_visible; n++)
		if (i->operand[n].type == ZYDIS_OPERAND_TYPE_MEMORY &&
			i->operand[n].mem.base == ZYDIS_REGISTER_RIP)
			(void)instruction_address(i, &i->operand[n], ret->at, &ret->operand);
}

/* Is it known which side of a branch is taken? */
static bool is_decided(
	const ZydisDecodedInstruction *head, const struct known *known, bool *ret_taken)
{
	bool if_zero = head->mnemonic == ZYDIS_MNEMONIC_JZ;
	*ret_taken = known->zero == if_zero;
	return known->has_zero && (if_zero || head->mnemonic == ZYDIS_MNEMONIC_JNZ);
}

/* Adds the instruction's destination to the blocks. False: do not go on behind the call yet, as it
 * is not known to return. */
static bool follow(
	struct walk *walk, const struct codewalk_instruction *instruction, size_t function)
{
	if (instruction->kind != CODEWALK_CALL) {
		add_block(walk, instruction->to, function, NO_CALL);
		return true;
	}
	size_t callee = add_function(walk, instruction->to);
	if (callee == NO_CALL || walk->function[callee].returns)
		return callee != NO_CALL;
	add_block(walk, instruction->at + instruction->bytes, function, callee);
	return false;
}

/* Walks the block up to the instruction that ends it, and adds its destinations to the blocks.
 * True: the visitor found what it looks for. */
static bool visit_block(struct walk *walk, const struct block *block)
{
	const struct codewalk *codewalk = walk->codewalk;
	raddr_t at = block->at;
	int64_t number = NO_NUMBER;
	struct known known = {.whole = ZYDIS_REGISTER_NONE};
	for (; walk->steps > 0; walk->steps--) {
		struct instruction decoded;
		const ZydisDecodedInstruction *head = &decoded.head;
		if (!decode(walk, at, &decoded))
			break;
		struct codewalk_instruction instruction = {
			.at = at, .bytes = head->length, .kind = kind_of(head, number)};
		if (leads_on(instruction.kind))
			read_target(&decoded, &instruction);
		bool taken = false;
		if (codewalk->by_values)
			complete(walk, &decoded, &known, &instruction);
		if (codewalk->by_values && instruction.kind == CODEWALK_BRANCH &&
			is_decided(head, &known, &taken))
			instruction.kind = taken ? CODEWALK_JUMP : CODEWALK_PLAIN;
		instruction.function = walk->function[block->function].entry;
		instruction.returns = head->meta.category == ZYDIS_CATEGORY_RET;
		enum codewalk_answer answer =
			codewalk->visit(codewalk->visit_context, &instruction);
		if (answer == CODEWALK_FOUND)
			return true;
		if (instruction.direct && answer == CODEWALK_FOLLOW &&
			!follow(walk, &instruction, block->function))
			return false;
		bool leaves = codewalk->by_values && instruction.kind == CODEWALK_JUMP &&
			      answer == CODEWALK_PASS;
		if (instruction.returns || leaves)
			walk->function[block->function].returns = true;
		if (instruction.kind == CODEWALK_JUMP || instruction.kind == CODEWALK_END ||
			answer == CODEWALK_LEAVE)
			return false;
		number = number_behind(&decoded, number);
		if (codewalk->by_values)
			learn(walk, &decoded, at, &known);
		at += head->length;
	}
	walk->cut = true;
	return false;
}

static bool is_reached(const struct walk *walk, const struct block *block)
{
	return block->behind == NO_CALL || walk->function[block->behind].returns;
}

enum codewalk_result codewalk_run(const struct codewalk *codewalk, raddr_t entry)
{
	struct walk walk = {.codewalk = codewalk, .steps = STEPS_MAX};
	instruction_decoder(&walk.decoder);
	(void)add_function(&walk, entry);
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < walk.count; i++) {
			struct block *block = &walk.block[i];
			if (block->done || !is_reached(&walk, block))
				continue;
			block->done = more = true;
			if (visit_block(&walk, block))
				return CODEWALK_HIT;
		}
	}
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
