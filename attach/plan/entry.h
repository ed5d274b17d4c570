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
	raddr_t plain;		  /* for ABI_NEWS: what the hook calls instead */
	raddr_t text_lo, text_hi; /* of its module */
	raddr_t addr;
	uint64_t bytes;
	struct bridge place[1 + BRIDGE_PLACES_MAX]; /* places where it could be hooked */
	size_t place_count;
	struct bridge bridge; /* the place where it is hooked */
	raddr_t leads_to;     /* the function that it only forwards to; 0: none */
	bool passed;	      /* not hooked itself, since `leads_to` is hooked */
	raddr_t at;	      /* address of its bridge; 0: it is not hooked */
	const char *why;      /* the reason if it is not hooked; NULL: it is hooked, or `passed` */
	size_t function;      /* in survey.coverage; ENTRY_GUARD: it is guarded */
	struct patch_code code; /* what is written if it is hooked */
	bool tapped;		/* the jump is written */
};

/* Room for the code of one function, from memory and from its file. */
struct entry_code {
	uint8_t memory[ENTRY_CODE_MAX], file[ENTRY_CODE_MAX];
};

/* Reads the code of entry->addr; sets the places where the function could be hooked, and leads_to.
 * Returns NULL, or why the function cannot be hooked. */
const char *entry_read(const struct survey *survey, struct entry_code *code, struct entry *entry);
