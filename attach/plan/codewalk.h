/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows code from instruction to instruction and from block to block, as far as the code alone
 * tells: not through registers, tables and words.
 *
 * Pure: bytes in, the visitor's result out.
 */
#pragma once

#include "format/base.h"

enum codewalk_kind {
	CODEWALK_PLAIN,
	CODEWALK_JUMP,
	CODEWALK_BRANCH,
	CODEWALK_CALL,
	CODEWALK_SYSTEM, /* a system call of unknown number: exit(2) does not return */
	CODEWALK_END,	 /* nothing follows: a return, a trap, exit(2), rt_sigreturn(2) */
};

struct codewalk_instruction {
	raddr_t at;
	size_t bytes;
	enum codewalk_kind kind;
	/* For a jump, a branch or a call: */
	bool direct;	   /* it leads to `to` */
	bool through_word; /* to the address in the word `to`, relative to rip, as in a PLT */
	/* It leads to the address in the word to which the TLS descriptor register points. If that
	 * is a TLS descriptor, the call keeps all registers but that one. */
	bool through_descriptor;
	raddr_t to;
	bool returns;	  /* it is a return */
	bool known;	  /* by values: indirect, and leads to `to` by known registers */
	raddr_t operand;  /* by values: address of a variable that it uses otherwise; 0: none */
	raddr_t function; /* the function that the walk is in, by its entry */
};

enum codewalk_answer {
	CODEWALK_FOLLOW, /* go on at the destination, too; behind a call if it returns */
	CODEWALK_PASS,	 /* go on only behind the instruction */
	CODEWALK_LEAVE,	 /* do not go on from here */
	CODEWALK_FOUND,	 /* end the walk */
};

enum codewalk_result {
	CODEWALK_SEEN, /* all that can be followed was visited */
	CODEWALK_CUT,  /* not all: there is too much, or it cannot be read or decoded */
	CODEWALK_HIT,  /* the visitor has answered CODEWALK_FOUND */
};

/* Reads up to `bytes` bytes of code at `addr`; returns how many. */
typedef size_t codewalk_read(void *context, raddr_t addr, uint8_t *buffer, size_t bytes);
typedef enum codewalk_answer codewalk_visit(
	void *context, const struct codewalk_instruction *instruction);

struct codewalk {
	codewalk_read *read;
	void *read_context;
	codewalk_visit *visit;
	void *visit_context;
	/* A branch that compares a variable with a number is followed only in the direction that
	 * the variable's present value gives; `read` reads the variable. A jump that the visitor
	 * answers with CODEWALK_PASS counts as a return of its function. */
	bool by_values;
};

/* Walks from `entry`, each block once for each function that leads to it, through at most 16,384
 * instructions and 2,048 blocks. CODEWALK_CUT if this build has no decoder. */
enum codewalk_result codewalk_run(const struct codewalk *codewalk, raddr_t entry);
