/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles a module's .eh_frame into the table that the agent walks by (format/abi_unwind.h). Bytes
 * in, bytes out: no process, no file. Input is hostile: malformed CFI costs rows, never memory
 * safety or unbounded time.
 */
#pragma once

#include "format/abi_unwind.h"
#include "format/err.h"

/* table_compile refuses text that spans more than TABLE_TEXT_MAX bytes, and ignores bytes of
 * eh_frame beyond TABLE_EH_FRAME_MAX. */
#define TABLE_TEXT_MAX	   (1u << 30)
#define TABLE_EH_FRAME_MAX (64u << 20)

struct unwind_input {
	const uint8_t *eh_frame;
	size_t eh_frame_bytes;	   /* may reach past the section: a zero length word ends it */
	uint64_t eh_frame_vaddr;   /* link-time address of eh_frame[0] */
	uint64_t text_lo, text_hi; /* link-time addresses of the executable segments */
};

struct unwind_stats {
	uint64_t section_bytes; /* size of eh_frame with its terminator; 0: it has none */
	uint64_t fde_count, bad_fdes;
	uint64_t rows, unsupported_rows; /* before granules repeat them */
	uint64_t rules;
	uint64_t gap_bytes; /* executable bytes without CFI, which got the FRAME rule */
};

/* Compiles a table for [text_lo, text_hi), rounded to granules. Gaps of at most 15 bytes behind an
 * FDE join the row before; gaps over 1 KiB get ABI_RULE_FRAME, others ABI_RULE_NONE. Without any
 * FDE: FRAME throughout. `*ret` is malloc'd and has (*ret)->bytes bytes. HT_ERR_FORMAT: the text
 * spans too much. */
HT_MUST_CHECK
struct ht_err *table_compile(
	const struct unwind_input *input, struct abi_table **ret, struct unwind_stats *ret_stats);

/* Could table_compile have made `table` of `bytes` bytes: are all counts, offsets and indices
 * valid? Trusts nothing in it. `table` is aligned to 8. */
HT_MUST_CHECK
bool table_is_sound(const struct abi_table *table, size_t bytes);

/* The rule for `vaddr`; ABI_RULE_NONE outside of the table. Trusts nothing in `table` except its
 * size in bytes. */
uint32_t table_lookup(const struct abi_table *table, uint64_t vaddr);

/* Finds the next gap that begins at `vaddr` or later: code that no FDE describes and that has no
 * rule (ABI_RULE_NONE). False: none. Requires a sound `table`. */
bool table_find_gap(const struct abi_table *table, uint64_t vaddr, uint64_t *ret);

/* Gives the row that contains `vaddr`, and the rows with the same rule behind it, the rule `rule`,
 * if they have none (ABI_RULE_NONE). Does nothing if the table has no room for another rule.
 * Requires a sound `table`, which may move; after an error the table is unchanged. */
HT_MUST_CHECK
struct ht_err *table_fill_at(struct abi_table **table, uint64_t vaddr, uint32_t rule);
