/* SPDX-License-Identifier: Apache-2.0
 *
 * One function that could be hooked at its entry: what its code allows.
 */
#pragma once

#include "attach/inject/bridge.h"
#include "attach/inject/patch.h"
#include "attach/plan/survey.h"

#define ENTRY_CODE_MAX	 (1u << 20)
#define ENTRY_NAME_BYTES 64u

#define ENTRY_GUARD SIZE_MAX

struct entry {
	char name[ENTRY_NAME_BYTES];
	enum abi_hook hook;
	raddr_t usable_size;
	raddr_t plain;		  /* of ABI_NEWS */
	raddr_t text_lo, text_hi; /* of its module */
	raddr_t addr;
	uint64_t bytes;
	struct bridge place[1 + BRIDGE_PLACES_MAX]; /* where it could be hooked */
	size_t place_count;
	struct bridge bridge;	/* where it is */
	raddr_t leads_to;	/* all that it does is done there; 0: nowhere */
	bool passed;		/* it is not hooked itself: what it leads to is */
	raddr_t at;		/* of its bridge; 0: it is not to be hooked */
	const char *why;	/* then: the reason; NULL: it is passed */
	size_t function;	/* in survey.coverage; ENTRY_GUARD: it is watched over */
	struct patch_code code; /* what is written, then */
	bool tapped;
};

/* Room for the code of one function, as it is and as its file has it. */
struct entry_code {
	uint8_t memory[ENTRY_CODE_MAX], file[ENTRY_CODE_MAX];
};

/* Reads the function's code and notes where it could be hooked, and what it leads to. NULL, or why
 * it cannot be. */
const char *entry_read(const struct survey *survey, struct entry_code *code, struct entry *entry);
