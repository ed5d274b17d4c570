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
	CODEWALK_END, /* nothing follows: a return, a trap */
};

struct codewalk_instruction {
	raddr_t at;
	enum codewalk_kind kind;
	/* Of jump, branch, call: */
	bool direct;	   /* to `to` */
	bool through_word; /* to what stands in a word relative to rip, as in the PLT */
	raddr_t to;
};

enum codewalk_answer {
	CODEWALK_FOLLOW, /* where it leads to, too */
	CODEWALK_PASS,	 /* only on */
	CODEWALK_FOUND,	 /* no further */
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
};

/* From `entry` on, each block once, some ten thousand instructions at most. True: the visitor has
 * said CODEWALK_FOUND. Without a decoder in this build nothing is visited. */
bool codewalk_run(const struct codewalk *codewalk, raddr_t entry);
