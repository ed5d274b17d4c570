/* SPDX-License-Identifier: Apache-2.0
 *
 * What the target's allocators hold, read from outside: nothing of the target is called, stopped
 * or waited for. Bounded in reads, memory and so in time, whatever the target's memory says.
 */
#pragma once

#include "attach/elf/modules.h"
#include "format/memory.h"

#define HEAP_ACCOUNTS_MAX 8u
#define HEAP_REASON_BYTES 160u
#define HEAP_VALUES_MAX	  8u

/* A figure of one allocator's own, beside those that all have. */
struct heap_value {
	enum memory_kind kind;
	uint64_t bytes;
};

/* What one allocator has given to the program, by its own books. */
struct heap_account {
	char allocator[32];
	bool known; /* otherwise only `allocator` and `reason` mean anything */
	/* Blocks that the program has, with their headers and what they were rounded up by. */
	uint64_t held_bytes;
	uint64_t off_bytes;    /* held_bytes is off by no more than that */
	uint64_t system_bytes; /* that the allocator has from the system */
	uint32_t arenas;
	uint32_t header_bytes; /* of a block, beside what malloc_usable_size tells */
	struct heap_value value[HEAP_VALUES_MAX];
	uint32_t value_count;
	char reason[HEAP_REASON_BYTES]; /* why it is unknown, or off; empty: it is neither */
};

struct heap {
	struct heap_account account[HEAP_ACCOUNTS_MAX];
	size_t count;
};

/*
 * Reads the books of all allocators that `modules` bring. The process may run on meanwhile: what
 * changed while it was read is part of off_bytes. HT_ERR_TARGET_GONE, HT_ERR_NOMEM; whatever else
 * goes wrong makes an account unknown.
 */
HT_MUST_CHECK
struct ht_err *heap_read(const struct proc *proc, const struct modules *modules, struct heap *ret);
