/* SPDX-License-Identifier: Apache-2.0
 *
 * A function that is hooked at its entry: its first byte becomes the opcode of a jump, and the four
 * bytes behind it, as they are, its distance. What that leads to is a pad of ours. The function's
 * first instruction stands in a bridge, followed by a jump to the second. One byte changes, so
 * there is no moment at which a thread could see half of it, and none can be in the middle of it.
 *
 * Where nothing can be mapped at that distance, one of the next instructions is the one that
 * changes, as long as everything before it can be undone: the pad takes back what the function has
 * pushed and moved, so that a hook finds what the caller gave, and the bridge does it once more.
 *
 * Pure: bytes in, bytes or a reason out.
 */
#pragma once

#include "format/abi_control.h"

#define BRIDGE_LOOK_BYTES 32u /* of the function are needed, behind its aligned first word, too */
#define BRIDGE_PAD_BYTES  14u /* a jump to any address */
#define BRIDGE_UNDO_MAX	  26u /* in front of it */
#define BRIDGE_ARITY_MAX  6u
#define BRIDGE_PLACES_MAX 6u /* instructions of a function that could lead to a pad */

enum bridge_kind {
	BRIDGE_COPY,	 /* the instruction can stand anywhere */
	BRIDGE_RELATIVE, /* it has an operand relative to rip */
	BRIDGE_JUMP,	 /* it is a jump */
	BRIDGE_RETURN,	 /* it is a return */
};

struct bridge {
	raddr_t function;
	raddr_t entry;	   /* of the instruction that becomes a jump: `function`, or a later one */
	uint8_t first[16]; /* the instruction */
	size_t bytes;
	enum bridge_kind kind;
	size_t operand_at;	       /* BRIDGE_RELATIVE: of its distance, in `first` */
	raddr_t operand;	       /* BRIDGE_RELATIVE, BRIDGE_JUMP: what it refers to */
	uint8_t redo[BRIDGE_UNDO_MAX]; /* what the bridge begins with: the instructions before it */
	size_t redo_bytes;
	/* Of one of these that has an operand relative to rip: its distance, in `redo`, the end of
	 * the instruction, and what it refers to. 0, 0, 0: none has. */
	size_t redo_operand_at, redo_operand_end;
	raddr_t redo_operand;
	uint8_t undo[BRIDGE_UNDO_MAX]; /* what the pad begins with */
	size_t undo_bytes;
	struct abi_bridge_step step[ABI_BRIDGE_STEPS];
	/* Calls that return to here are none of the program's: the pad leads them to the bridge. */
	raddr_t passed;
	uint32_t passed_bytes; /* 0: nowhere */
	raddr_t word;	       /* the aligned eight bytes in which the first byte lies */
	uint64_t before;
	raddr_t pad; /* where the jump leads to */
};

/* Can it be had at all in this build? */
bool bridge_is_supported(void);

/*
 * Reads the function of `bytes` bytes at `entry`; `code` begins at the aligned word before it
 * (entry & ~7), and `code_bytes` of it are there: the function, and BRIDGE_LOOK_BYTES. NULL, or why
 * it cannot be hooked in this way.
 */
const char *bridge_read(
	const uint8_t *code, size_t code_bytes, raddr_t entry, size_t bytes, struct bridge *ret);

/*
 * The same for later instructions of the function: how many there are, at most BRIDGE_PLACES_MAX.
 * It takes `arity` arguments in registers. `frees`: a block, and does nothing without one.
 */
size_t bridge_read_later(const uint8_t *code, size_t code_bytes, raddr_t entry, size_t bytes,
	unsigned arity, bool frees, struct bridge ret[BRIDGE_PLACES_MAX]);

/* The bridge for address `at`; false: out of reach of what the instruction refers to. */
bool bridge_make(const struct bridge *bridge, raddr_t at, struct abi_bridge *ret);
/* Its pad, which leads to `to`, and how long that is; its bridge is at `at`. */
void bridge_make_pad(const struct bridge *bridge, raddr_t at, raddr_t to, uint8_t *ret);
size_t bridge_pad_bytes(const struct bridge *bridge);
/* The word at bridge->word once the function leads to the pad. */
uint64_t bridge_word(const struct bridge *bridge);
