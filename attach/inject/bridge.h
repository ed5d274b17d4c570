/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks a function at its entry by one changed byte. The function's first byte becomes the opcode
 * of a jump, and the four bytes behind it, unchanged, are the jump's distance. The jump leads to a
 * pad of heaptap's. The replaced instruction is in a bridge, followed by a jump to the function's
 * second instruction. A change of one byte is atomic, and no thread can be in the middle of it.
 *
 * If nothing can be mapped at that distance, a later instruction becomes the jump, as long as the
 * instructions before it can be undone: the pad undoes the function's pushes and moves, so that the
 * hook finds what the caller passed, and the bridge repeats these instructions.
 *
 * Pure: bytes in, bytes or a reason out.
 */
#pragma once

#include "format/abi_control.h"

#define BRIDGE_LOOK_BYTES 32u /* of code that must be readable from the function's beginning on */
#define BRIDGE_PAD_BYTES  14u /* of the jump to any address that ends a pad */
#define BRIDGE_UNDO_MAX	  26u /* bytes of undo code in front of that jump */
#define BRIDGE_ARITY_MAX  6u
#define BRIDGE_PLACES_MAX 6u /* later instructions that may become the jump */

enum bridge_kind {
	BRIDGE_COPY,	 /* the instruction can be anywhere */
	BRIDGE_RELATIVE, /* it has an operand relative to rip */
	BRIDGE_JUMP,	 /* it is a jump */
	BRIDGE_RETURN,	 /* it is a return */
};

struct bridge {
	raddr_t function;
	raddr_t entry;	   /* address of the instruction that becomes the jump */
	uint8_t first[16]; /* the bytes of that instruction */
	size_t bytes;
	enum bridge_kind kind;
	size_t operand_at;	       /* BRIDGE_RELATIVE: where its distance is in `first` */
	raddr_t operand;	       /* BRIDGE_RELATIVE, BRIDGE_JUMP: the address it refers to */
	uint8_t redo[BRIDGE_UNDO_MAX]; /* the instructions before it, which the bridge repeats */
	size_t redo_bytes;
	/* The one of these instructions with an operand relative to rip: where its distance is
	 * in `redo`, where the instruction ends, and the address it refers to. 0, 0, 0: none has
	 * one. */
	size_t redo_operand_at, redo_operand_end;
	raddr_t redo_operand;
	uint8_t undo[BRIDGE_UNDO_MAX]; /* the pad's code that undoes these instructions */
	size_t undo_bytes;
	struct abi_bridge_step step[ABI_BRIDGE_STEPS];
	/* Calls that return into this range are the allocator's own: the pad leads them to the
	 * bridge. */
	raddr_t passed;
	uint32_t passed_bytes; /* 0: no such range */
	raddr_t word;	       /* the aligned eight bytes that hold the changed byte */
	uint64_t before;
	raddr_t pad; /* where the jump leads */
};

/* Is there a decoder in this build? */
bool bridge_is_supported(void);

/* Reads the function of `bytes` bytes at `entry`. `code` begins at the aligned word that holds the
 * function's first byte (entry & ~7), and has `code_bytes` bytes: the function, and
 * BRIDGE_LOOK_BYTES. Returns NULL, or why the function cannot be hooked at its entry; then `ret` is
 * unchanged. */
const char *bridge_read(
	const uint8_t *code, size_t code_bytes, raddr_t entry, size_t bytes, struct bridge *ret);

/* As bridge_read, for later instructions of the function. Returns how many of them can become the
 * jump, at most BRIDGE_PLACES_MAX. The function takes `arity` arguments in registers. `frees`: the
 * argument is a block, and the function does nothing if it is NULL. */
size_t bridge_read_later(const uint8_t *code, size_t code_bytes, raddr_t entry, size_t bytes,
	unsigned arity, bool frees, struct bridge ret[BRIDGE_PLACES_MAX]);

/* Makes the bridge for address `at`; false: the address that the instruction refers to is out of
 * reach. */
bool bridge_make(const struct bridge *bridge, raddr_t at, struct abi_bridge *ret);
/* Makes the pad, which leads to `to`; its bridge is at `at`. bridge_pad_bytes is the pad's
 * length. */
void bridge_make_pad(const struct bridge *bridge, raddr_t at, raddr_t to, uint8_t *ret);
size_t bridge_pad_bytes(const struct bridge *bridge);
/* The word at bridge->word with the function's jump in it. */
uint64_t bridge_word(const struct bridge *bridge);
