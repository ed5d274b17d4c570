/* SPDX-License-Identifier: Apache-2.0
 *
 * Later instructions of a function that can become the jump to a pad: the bridge repeats the
 * instructions before them, and the pad undoes these.
 */
#include "attach/inject/bridge.h"

#include <string.h>

#ifdef HEAPTAP_ZYDIS
#include "attach/elf/distance.h"
#include "attach/inject/bridge_code.h"

#define REGISTERS 16u
#define NOTHING	  0xffu /* no whole register */

/* The instructions before the one that becomes the jump: the bridge repeats them, the pad undoes
 * them. */
struct prologue {
	unsigned arity;
	struct bridge bridge; /* as far as these instructions give it: `redo` and `step` */
	uint64_t words;	      /* pushed */
	uint8_t from[BRIDGE_UNDO_MAX], to[BRIDGE_UNDO_MAX]; /* registers moved, in order */
	size_t moves;
	raddr_t next; /* address of the next instruction */
	bool tested;  /* the last instruction tested whether there is a block */
};

/* The number of a register as instructions encode it: rax rcx rdx rbx rsp rbp rsi rdi r8 .. r15.
 * NOTHING: the operand is no whole register. */
static uint8_t register_of(const ZydisDecodedOperand *operand)
{
	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER ||
		operand->reg.value < ZYDIS_REGISTER_RAX || operand->reg.value > ZYDIS_REGISTER_R15)
		return NOTHING;
	return (uint8_t)(operand->reg.value - ZYDIS_REGISTER_RAX);
}

static bool is_argument(const struct prologue *p, uint8_t reg)
{
	static const uint8_t order[BRIDGE_ARITY_MAX] = {7, 6, 2, 1, 8, 9};
	for (unsigned i = 0; i < p->arity; i++)
		if (order[i] == reg)
			return true;
	return false;
}

/* Does the register hold neither an argument nor a caller's value at the function's entry? */
static bool is_free_register(const struct prologue *p, uint8_t reg)
{
	bool saved = reg == 3 || reg == 4 || reg == 5 || reg >= 12;
	return !saved && !is_argument(p, reg);
}

/* Are all arguments in their registers again after the moves were made, and undone from the last to
 * the first? */
static bool can_undo(const struct prologue *p)
{
	uint8_t held[REGISTERS];
	for (uint8_t r = 0; r < REGISTERS; r++)
		held[r] = r;
	for (size_t i = 0; i < p->moves; i++)
		held[p->to[i]] = held[p->from[i]];
	for (size_t i = p->moves; i-- > 0;)
		held[p->from[i]] = held[p->to[i]];
	for (uint8_t r = 0; r < REGISTERS; r++)
		if (!is_free_register(p, r) && held[r] != r)
			return false;
	return true;
}

static bool redo_add(struct prologue *p, const uint8_t *code, size_t bytes)
{
	struct bridge *bridge = &p->bridge;
	if (bridge->redo_bytes + bytes > sizeof(bridge->redo))
		return false;
	memcpy(bridge->redo + bridge->redo_bytes, code, bytes);
	bridge->redo_bytes += bytes;
	return true;
}

static bool absorb_push(struct prologue *p, const struct instruction *i, const uint8_t *code)
{
	uint64_t pushed;
	bool saves =
		i->head.mnemonic == ZYDIS_MNEMONIC_SUB || register_of(&i->operand[0]) != NOTHING;
	if (!saves || !bridge_read_push(i, &pushed) || !pushed ||
		!redo_add(p, code, i->head.length))
		return false;
	p->words += pushed / sizeof(uint64_t);
	return bridge_step_add(&p->bridge, p->bridge.redo_bytes, p->words);
}

/* Is the operand a register, of at least 32 bits, that holds nothing at the entry, and nothing from
 * a move? */
static bool is_unused(const struct prologue *p, const ZydisDecodedOperand *operand)
{
	uint8_t to = (uint8_t)(instruction_whole(operand->reg.value) - ZYDIS_REGISTER_RAX);
	if (operand->size < 32 || to >= REGISTERS || !is_free_register(p, to))
		return false;
	for (size_t n = 0; n < p->moves; n++)
		if (p->to[n] == to)
			return false;
	return true;
}

static bool absorb_number(struct prologue *p, const struct instruction *i, const uint8_t *code)
{
	return is_unused(p, &i->operand[0]) && redo_add(p, code, i->head.length);
}

/* Repeats the load of a variable, the program's or the thread's: the bridge loads it once more. */
static bool absorb_load(struct prologue *p, const struct instruction *i, const uint8_t *code)
{
	const ZydisDecodedOperandMem *from = &i->operand[1].mem;
	struct bridge *bridge = &p->bridge;
	size_t at = bridge->redo_bytes;
	if (from->index != ZYDIS_REGISTER_NONE || !is_unused(p, &i->operand[0]))
		return false;
	if (from->base != ZYDIS_REGISTER_RIP)
		return from->segment == ZYDIS_REGISTER_FS &&
		       (from->base == ZYDIS_REGISTER_NONE ||
			       (from->base >= ZYDIS_REGISTER_RAX &&
				       from->base <= ZYDIS_REGISTER_R15 &&
				       is_free_register(
					       p, (uint8_t)(from->base - ZYDIS_REGISTER_RAX)))) &&
		       redo_add(p, code, i->head.length);
	if (bridge->redo_operand || i->head.raw.disp.size != 32 ||
		!redo_add(p, code, i->head.length))
		return false;
	bridge->redo_operand_at = at + i->head.raw.disp.offset;
	bridge->redo_operand_end = bridge->redo_bytes;
	bridge->redo_operand = distance_target(code + i->head.raw.disp.offset, p->next);
	return true;
}

static bool absorb_move(struct prologue *p, const struct instruction *i, const uint8_t *code)
{
	uint8_t to = register_of(&i->operand[0]), from = register_of(&i->operand[1]);
	if (i->operand[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		i->operand[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return absorb_number(p, i, code);
	if (i->operand[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		i->operand[1].type == ZYDIS_OPERAND_TYPE_MEMORY)
		return absorb_load(p, i, code);
	if (i->head.length != 3 || !is_argument(p, from) ||
		(!is_argument(p, to) && !is_free_register(p, to)))
		return false;
	p->to[p->moves] = to;
	p->from[p->moves] = from;
	p->moves++;
	return redo_add(p, code, i->head.length);
}

static bool compares_registers(const struct instruction *i)
{
	return register_of(&i->operand[0]) != NOTHING &&
	       (register_of(&i->operand[1]) != NOTHING ||
		       i->operand[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE);
}

/* Adds an instruction that can be undone to the prologue; false: it cannot be. */
static bool absorb(struct prologue *p, const struct instruction *i, const uint8_t *code, bool frees)
{
	bool tested = p->tested;
	p->tested = false;
	ZydisMnemonic what = i->head.mnemonic;
	if (what == ZYDIS_MNEMONIC_PUSH || what == ZYDIS_MNEMONIC_SUB)
		return absorb_push(p, i, code);
	if (what == ZYDIS_MNEMONIC_MOV)
		return absorb_move(p, i, code);
	if (what == ZYDIS_MNEMONIC_ENDBR64)
		return redo_add(p, code, i->head.length);
	/* A caller without a block leaves here: nothing to record. All others have a block. */
	if (what == ZYDIS_MNEMONIC_JZ)
		return frees && tested && !p->moves;
	if ((what != ZYDIS_MNEMONIC_TEST && what != ZYDIS_MNEMONIC_CMP) || !compares_registers(i))
		return false;
	p->tested = what == ZYDIS_MNEMONIC_TEST && register_of(&i->operand[0]) == 7 &&
		    register_of(&i->operand[1]) == 7;
	return redo_add(p, code, i->head.length);
}

/* Makes the pad's undo code: behind it, only flags and unused registers differ from the function's
 * entry. */
static bool make_undo(const struct prologue *p, struct bridge *bridge)
{
	static const uint8_t drop[] = ABI_PAD_DROP;
	size_t bytes = 0;
	if (p->words) {
		if (p->words * sizeof(uint64_t) > INT8_MAX)
			return false;
		memcpy(bridge->undo, drop, sizeof(drop));
		bridge->undo[sizeof(drop)] = (uint8_t)(p->words * sizeof(uint64_t));
		bytes = sizeof(drop) + 1;
	}
	for (size_t i = p->moves; i-- > 0;) {
		uint8_t to = p->from[i], from = p->to[i];
		if (bytes + 3 > sizeof(bridge->undo))
			return false;
		/* mov from, to */
		bridge->undo[bytes++] = (uint8_t)(0x48 | (from >> 3 << 2) | to >> 3);
		bridge->undo[bytes++] = 0x89;
		bridge->undo[bytes++] = (uint8_t)(0xc0 | (from & 7) << 3 | (to & 7));
	}
	bridge->undo_bytes = bytes;
	return can_undo(p);
}

static bool place_after(const struct function *function, size_t at, const struct prologue *p,
	const struct instruction *i, struct bridge *ret)
{
	struct bridge bridge = p->bridge;
	/* In the bridge rbp must hold the caller's value. */
	if (at + sizeof(bridge.first) > function->code_bytes ||
		instruction_writes(i, ZYDIS_REGISTER_RBP) || !make_undo(p, &bridge) ||
		bridge_read_place(function, at, p->words, &bridge))
		return false;
	*ret = bridge;
	return true;
}

size_t bridge_read_later(const uint8_t *code, size_t code_bytes, raddr_t entry, size_t bytes,
	unsigned arity, bool frees, struct bridge ret[BRIDGE_PLACES_MAX])
{
	struct prologue prologue = {.arity = arity};
	struct function function;
	struct instruction i;
	size_t count = 0;
	if (bridge_function_begin(&function, code, code_bytes, entry, bytes))
		return 0;
	for (size_t at = 0; at < bytes && count < BRIDGE_PLACES_MAX; at += i.head.length) {
		if (!instruction_read(&function.decoder, function.code + at, bytes - at, &i))
			break;
		if (at && place_after(&function, at, &prologue, &i, &ret[count]))
			count++;
		prologue.next = entry + at + i.head.length;
		if (!absorb(&prologue, &i, function.code + at, frees))
			break;
	}
	return count;
}

#else

size_t bridge_read_later(const uint8_t *code, size_t code_bytes, raddr_t entry, size_t bytes,
	unsigned arity, bool frees, struct bridge ret[BRIDGE_PLACES_MAX])
{
	(void)code;
	(void)arity;
	(void)code_bytes;
	(void)entry;
	(void)bytes;
	(void)frees;
	(void)ret;
	return 0;
}

#endif
