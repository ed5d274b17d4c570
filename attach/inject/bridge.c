/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/bridge.h"

#include <string.h>

#include "attach/elf/distance.h"
#include "attach/inject/jump.h"
#ifdef HEAPTAP_ZYDIS
#include "attach/inject/bridge_code.h"
#endif

#define WORD_BYTES   8u
#define FUNCTION_MAX (1u << 20)
#define REACH	     (1ll << 31)

static void make_jump(raddr_t to, uint8_t ret[BRIDGE_PAD_BYTES])
{
	/* jmp *0(%rip) */
	static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
	memcpy(ret, jump, sizeof(jump));
	memcpy(ret + sizeof(jump), &to, sizeof(to));
}

/* The pad's code for calls from the allocator's own code in [lo, lo + bytes), which go on to the
 * bridge instead of the hook. Uses only flags and registers that hold no argument at a function's
 * entry. */
struct pass {
	uint8_t load[4]; /* mov (%rsp),%r11 */
	uint8_t base[2]; /* movabs $lo,%r10 */
	uint8_t lo[8];
	uint8_t compare[6]; /* sub %r10,%r11 ; cmp $bytes,%r11 */
	uint8_t bytes[4];
	uint8_t above[2]; /* jae behind the jump */
	uint8_t jump[BRIDGE_PAD_BYTES];
};

static void make_pass(const struct bridge *bridge, raddr_t to, uint8_t *ret)
{
	struct pass pass = {.load = {0x4c, 0x8b, 0x1c, 0x24},
		.base = {0x49, 0xba},
		.compare = {0x4d, 0x29, 0xd3, 0x49, 0x81, 0xfb},
		.above = {0x73, BRIDGE_PAD_BYTES}};
	memcpy(pass.lo, &bridge->passed, sizeof(pass.lo));
	memcpy(pass.bytes, &bridge->passed_bytes, sizeof(pass.bytes));
	make_jump(to, pass.jump);
	memcpy(ret, &pass, sizeof(pass));
}

void bridge_make_pad(const struct bridge *bridge, raddr_t at, raddr_t to, uint8_t *ret)
{
	memcpy(ret, bridge->undo, bridge->undo_bytes);
	ret += bridge->undo_bytes;
	if (bridge->passed_bytes) {
		make_pass(bridge, at + offsetof(struct abi_bridge, code), ret);
		ret += sizeof(struct pass);
	}
	make_jump(to, ret);
}

size_t bridge_pad_bytes(const struct bridge *bridge)
{
	return bridge->undo_bytes + (bridge->passed_bytes ? sizeof(struct pass) : 0) +
	       BRIDGE_PAD_BYTES;
}

static bool distance(raddr_t from, raddr_t to, int32_t *ret)
{
	int64_t far = (int64_t)(to - from);
	*ret = (int32_t)far;
	return far >= -REACH && far < REACH;
}

bool bridge_make(const struct bridge *bridge, raddr_t at, struct abi_bridge *ret)
{
	raddr_t code = at + offsetof(struct abi_bridge, code);
	raddr_t next = bridge->entry + bridge->bytes;
	uint8_t *first = ret->code + bridge->redo_bytes;
	int32_t far;

	*ret = (struct abi_bridge){0};
	memcpy(ret->step, bridge->step, sizeof(ret->step));
	memcpy(ret->code, bridge->redo, bridge->redo_bytes);
	if (bridge->redo_operand) {
		if (!distance(code + bridge->redo_operand_end, bridge->redo_operand, &far))
			return false;
		memcpy(ret->code + bridge->redo_operand_at, &far, sizeof(far));
	}
	if (bridge->kind == BRIDGE_JUMP) {
		make_jump(bridge->operand, first);
		return true;
	}
	memcpy(first, bridge->first, bridge->bytes);
	if (bridge->kind == BRIDGE_RELATIVE) {
		if (!distance(code + bridge->redo_bytes + bridge->bytes, bridge->operand, &far))
			return false;
		memcpy(first + bridge->operand_at, &far, sizeof(far));
	}
	if (bridge->kind != BRIDGE_RETURN)
		make_jump(next, first + bridge->bytes);
	return true;
}

uint64_t bridge_word(const struct bridge *bridge)
{
	unsigned shift = 8 * (unsigned)(bridge->entry - bridge->word);
	return (bridge->before & ~(0xffull << shift)) | (uint64_t)JUMP_OPCODE << shift;
}

#ifdef HEAPTAP_ZYDIS

bool bridge_is_supported(void)
{
	return true;
}

static bool is_call(const struct instruction *i)
{
	return i->head.meta.category == ZYDIS_CATEGORY_CALL;
}

/* Does a jump in the function lead to an instruction that moves into the bridge, or a call to any
 * of these but the first? NULL: none does; else the reason. */
static const char *check_branches(
	const ZydisDecoder *decoder, const uint8_t *code, size_t bytes, const struct bridge *bridge)
{
	struct instruction i;
	raddr_t to;
	for (size_t at = 0; at < bytes; at += i.head.length) {
		if (!instruction_read(decoder, code + at, bytes - at, &i))
			return "its code cannot be decoded";
		if (!instruction_target(&i, bridge->function + at, &to))
			continue;
		uint64_t within = to - bridge->function;
		if (within == 0 && !is_call(&i))
			return "it loops to its first instruction";
		if (within > 0 && within < bridge->entry + bridge->bytes - bridge->function)
			return "it jumps into its first instruction";
	}
	return NULL;
}

bool bridge_read_push(const struct instruction *i, uint64_t *ret)
{
	*ret = 0;
	if (!instruction_writes(i, ZYDIS_REGISTER_RSP))
		return true;
	if (i->head.mnemonic == ZYDIS_MNEMONIC_PUSH && i->head.operand_width == 64) {
		*ret = sizeof(uint64_t);
		return true;
	}
	if (i->head.mnemonic != ZYDIS_MNEMONIC_SUB ||
		i->operand[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || i->operand[1].imm.value.s < 0)
		return false;
	*ret = i->operand[1].imm.value.u;
	return *ret % sizeof(uint64_t) == 0 && *ret < 1u << 16;
}

static bool is_relative(const struct instruction *i)
{
	for (size_t n = 0; n < i->head.operand_count; n++)
		if (i->operand[n].type == ZYDIS_OPERAND_TYPE_MEMORY &&
			(i->operand[n].mem.base == ZYDIS_REGISTER_RIP ||
				i->operand[n].mem.base == ZYDIS_REGISTER_EIP))
			return true;
	return false;
}

static const char *read_relative(
	const struct instruction *i, const uint8_t *code, struct bridge *bridge)
{
	if (i->head.raw.disp.size != 32)
		return "its first instruction cannot be moved";
	bridge->kind = BRIDGE_RELATIVE;
	bridge->operand_at = i->head.raw.disp.offset;
	bridge->operand = distance_target(code + bridge->operand_at, bridge->entry + bridge->bytes);
	return NULL;
}

/* Sets how the instruction can be moved into the bridge. NULL: it can be moved; else the reason. */
static const char *read_first(const struct instruction *i, const uint8_t *code,
	struct bridge *bridge, uint64_t *ret_pushed)
{
	const char *unmovable = "its first instruction cannot be moved";
	bridge->kind = BRIDGE_COPY;
	*ret_pushed = 0;
	ZydisInstructionCategory category = i->head.meta.category;
	if (category == ZYDIS_CATEGORY_UNCOND_BR) {
		/* jmp *slot(%rip): the instruction behind it is not reached. */
		if (!instruction_target(i, bridge->entry, &bridge->operand))
			return is_relative(i) ? read_relative(i, code, bridge) : unmovable;
		bridge->kind = BRIDGE_JUMP;
		return NULL;
	}
	if (category == ZYDIS_CATEGORY_RET) {
		bridge->kind = BRIDGE_RETURN;
		return NULL;
	}
	if (category == ZYDIS_CATEGORY_CALL)
		return "it begins with a call";
	if (category == ZYDIS_CATEGORY_COND_BR)
		return "it begins with a conditional jump";
	if (category == ZYDIS_CATEGORY_INTERRUPT || category == ZYDIS_CATEGORY_SYSCALL ||
		category == ZYDIS_CATEGORY_SYSRET || category == ZYDIS_CATEGORY_SYSTEM ||
		category == ZYDIS_CATEGORY_IO)
		return unmovable;
	if (i->head.mnemonic == ZYDIS_MNEMONIC_UD0 || i->head.mnemonic == ZYDIS_MNEMONIC_UD1 ||
		i->head.mnemonic == ZYDIS_MNEMONIC_UD2 || i->head.mnemonic == ZYDIS_MNEMONIC_XBEGIN)
		return unmovable;
	if (!bridge_read_push(i, ret_pushed))
		return unmovable;
	return is_relative(i) ? read_relative(i, code, bridge) : NULL;
}

/* --- an instruction of a function --- */

const char *bridge_function_begin(struct function *function, const uint8_t *code, size_t code_bytes,
	raddr_t entry, size_t bytes)
{
	size_t skip = entry % WORD_BYTES;
	if (!bytes || bytes > FUNCTION_MAX)
		return "its length is not known";
	if (code_bytes < skip + bytes || code_bytes < skip + BRIDGE_LOOK_BYTES)
		return "it ends with its segment";
	*function = (struct function){.code = code + skip,
		.skip = skip,
		.bytes = bytes,
		.code_bytes = code_bytes - skip,
		.entry = entry};
	instruction_decoder(&function->decoder);
	return NULL;
}

bool bridge_step_add(struct bridge *bridge, size_t from, uint64_t words)
{
	for (size_t i = 0; i < ABI_BRIDGE_STEPS; i++) {
		if (bridge->step[i].from)
			continue;
		bridge->step[i] = (struct abi_bridge_step){(uint16_t)from, (uint16_t)words};
		return true;
	}
	return false;
}

const char *bridge_read_place(
	const struct function *function, size_t at, uint64_t words, struct bridge *bridge)
{
	const uint8_t *code = function->code + at;
	struct instruction i;
	uint64_t pushed;
	bridge->function = function->entry;
	bridge->entry = function->entry + at;
	bridge->word = ht_align_down(bridge->entry, WORD_BYTES);
	if (!instruction_read(&function->decoder, code, function->bytes - at, &i))
		return "its code cannot be decoded";
	bridge->bytes = i.head.length;
	memcpy(bridge->first, code, bridge->bytes);
	memcpy(&bridge->before, code - (bridge->entry - bridge->word), sizeof(bridge->before));
	const char *why = read_first(&i, code, bridge, &pushed);
	if (!why)
		why = check_branches(&function->decoder, function->code, function->bytes, bridge);
	if (why)
		return why;
	size_t behind = bridge->redo_bytes + bridge->bytes;
	if (pushed && !bridge_step_add(bridge, behind, words + pushed / sizeof(uint64_t)))
		return "it pushes too much";
	if (behind + BRIDGE_PAD_BYTES > sizeof(((struct abi_bridge *)0)->code))
		return "too much stands before it";
	/* Only the first byte must change: the four bytes behind it are the distance. */
	bridge->pad = jump_target(bridge->entry, code);
	return NULL;
}

const char *bridge_read(
	const uint8_t *code, size_t code_bytes, raddr_t entry, size_t bytes, struct bridge *ret)
{
	struct bridge bridge = {0};
	struct function function;
	const char *why = bridge_function_begin(&function, code, code_bytes, entry, bytes);
	if (!why)
		why = bridge_read_place(&function, 0, 0, &bridge);
	if (!why)
		*ret = bridge;
	return why;
}

#else

bool bridge_is_supported(void)
{
	return false;
}

const char *bridge_read(
	const uint8_t *code, size_t code_bytes, raddr_t entry, size_t bytes, struct bridge *ret)
{
	(void)code;
	(void)code_bytes;
	(void)entry;
	(void)bytes;
	(void)ret;
	return "this heaptap was built without the decoder (Zydis)";
}

#endif
