/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows code from one instruction to the next and from block to block, as far as that can be told
 * by the code alone: not through registers, tables and words.
 *
 * Pure: bytes in, what the visitor says out.
 */
#pragma once

#include "format/base.h"

enum codewalk_kind {
	CODEWALK_PLAIN,
	CODEWALK_JUMP,
	CODEWALK_BRANCH,
	CODEWALK_CALL,
	CODEWALK_SYSTEM, /* a system call of unknown number: exit(2) does not return */
	CODEWALK_END,	 /* nothing follows: a return, a trap, exit(2) */
};

struct codewalk_instruction {
	raddr_t at;
	size_t bytes;
	enum codewalk_kind kind;
	/* Of jump, branch, call: */
	bool direct;	   /* to `to` */
	bool through_word; /* to what stands in the word `to`, relative to rip, as in the PLT */
	/* To what stands where the register that holds TLS descriptors leads to. If it is that of
	 * one, it keeps all registers but this one. */
	bool through_descriptor;
	raddr_t to;
	bool returns;	  /* it is a return */
	bool known;	  /* by values: neither of these, but to `to` as registers are known */
	raddr_t operand;  /* by values: a variable that another instruction uses; 0: none */
	raddr_t function; /* that the walk is in: where it was called, or began */
};

enum codewalk_answer {
	CODEWALK_FOLLOW, /* where it leads to, too; behind a call once that is seen to return */
	CODEWALK_PASS,	 /* only on */
	CODEWALK_LEAVE,	 /* neither: what follows is not reached */
	CODEWALK_FOUND,	 /* no further */
};

enum codewalk_result {
	CODEWALK_SEEN, /* all that can be followed */
	CODEWALK_CUT,  /* not all: there is too much, or it cannot be read or decoded */
	CODEWALK_HIT,  /* the visitor has said CODEWALK_FOUND */
};

/* Reads up to `bytes` bytes of code at `addr`; how many it was. */
typedef size_t codewalk_read(void *context, raddr_t addr, uint8_t *buffer, size_t bytes);
typedef enum codewalk_answer codewalk_visit(
	void *context, const struct codewalk_instruction *instruction);

struct codewalk {
	codewalk_read *read;
	void *read_context;
	codewalk_visit *visit;
	void *visit_context;
	/* A branch that depends on a variable alone, compared with a number, is followed only to
	 * the side that its value leads to now. `read` reads it. A jump that is passed returns for
	 * its function. */
	bool by_values;
};

/* From `entry` on, each block once, 16,384 instructions and 2,048 blocks at most. CODEWALK_CUT
 * without a decoder in this build. */
enum codewalk_result codewalk_run(const struct codewalk *codewalk, raddr_t entry);
