/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles a module's .eh_frame into the table the agent walks by (format/abi_unwind.h). Takes
 * bytes, gives bytes: no process, no file. Input is hostile: malformed CFI costs rows, never memory
 * safety or unbounded time.
 */
#pragma once

#include "format/abi_unwind.h"
#include "format/err.h"

/* Text over more than this is refused; bytes of eh_frame behind this many are not looked at. */
#define TABLE_TEXT_MAX	   (1u << 30)
#define TABLE_EH_FRAME_MAX (64u << 20)

struct unwind_input {
	const uint8_t *eh_frame;
	size_t eh_frame_bytes;	 /* may reach past the section's end: a zero length word ends it */
	uint64_t eh_frame_vaddr; /* link-time address of eh_frame[0] */
	uint64_t text_lo, text_hi; /* link-time addresses of the executable segments */
};

struct unwind_stats {
	uint64_t section_bytes; /* of eh_frame with its terminator; 0: it has none */
	uint64_t fde_count, bad_fdes;
	uint64_t rows, unsupported_rows; /* before they are repeated at granules */
	uint64_t rules;
	uint64_t gap_bytes; /* executable bytes without CFI that got the FRAME rule */
};

/*
 * Compiles. The table covers [text_lo, text_hi) rounded to granules. Gaps between FDEs of at most
 * 15 bytes are merged into the row before; executable gaps over 1 KiB get ABI_RULE_FRAME, the
 * others ABI_RULE_NONE. `ret` is malloc'd, ret->bytes long. eh_frame_bytes 0: all FRAME.
 */
HT_MUST_CHECK
struct ht_err *table_compile(
	const struct unwind_input *input, struct abi_table **ret, struct unwind_stats *ret_stats);

/* Is `table`, `bytes` long, one that table_compile could have made: are all its counts, offsets and
 * indices right? Trusts nothing in it; aligned to 8. */
HT_MUST_CHECK
bool table_is_sound(const struct abi_table *table, size_t bytes);

/* The rule in force at `vaddr`; ABI_RULE_NONE outside. For tests and the daemon. Trusts nothing in
 * `table`. */
uint32_t table_lookup(const struct abi_table *table, uint64_t vaddr);

/* Where code begins, from `vaddr` on, of which no FDE tells and for which there is no rule
 * (ABI_RULE_NONE). False: nowhere. `table` is sound. */
bool table_find_gap(const struct abi_table *table, uint64_t vaddr, uint64_t *ret);

/* Gives the code at `vaddr` that rule where nothing is known of it (ABI_RULE_NONE), to the end of
 * the gap. `table` is sound, and may move; after an error it is as it was. */
HT_MUST_CHECK
struct ht_err *table_fill_at(struct abi_table **table, uint64_t vaddr, uint32_t rule);
