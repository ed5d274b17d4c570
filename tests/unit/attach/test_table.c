/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/table.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ehwriter.h"
#include "tests/support/ht_check.h"
#include "tests/support/random.h"

#define TEXT_LO	  0x1000u
#define TEXT_HI	  0x3000u
#define EH_VADDR  0x8000u
#define MUTATIONS 4000

#define RULE_AT_ENTRY abi_rule_make(ABI_RULE_RSP, 1, 0)
#define RULE_PUSHED   abi_rule_make(ABI_RULE_RSP, 2, 0)

static struct unwind_input input_of(const struct ehwriter *writer)
{
	return (struct unwind_input){
		.eh_frame = writer->out.data,
		.eh_frame_bytes = writer->out.length,
		.eh_frame_vaddr = writer->vaddr,
		.text_lo = TEXT_LO,
		.text_hi = TEXT_HI,
	};
}

static const void *table_at(const struct abi_table *table, uint32_t offset)
{
	return (const uint8_t *)table + offset;
}

/* Checks the layout that abi_unwind.h promises. */
static void check_invariants(const struct unwind_input *input, const struct abi_table *table,
	const struct unwind_stats *stats)
{
	const uint32_t *granule = table_at(table, table->granule_off);
	const uint16_t *row_pc = table_at(table, table->pc_off);
	const uint16_t *row_rule = table_at(table, table->index_off);
	const uint32_t *rule = table_at(table, table->rule_off);
	uint32_t unsupported = 0;

	ck_assert(table_is_sound(table, table->bytes));
	ck_assert_uint_eq(table->magic, ABI_TABLE_MAGIC);
	ck_assert_uint_eq(table->lo, ht_align_down(input->text_lo, ABI_GRANULE_BYTES));
	ck_assert_uint_eq(table->hi, ht_align_up(input->text_hi, ABI_GRANULE_BYTES));
	ck_assert_uint_eq(table->granule_count, (table->hi - table->lo) / ABI_GRANULE_BYTES);
	ck_assert_uint_eq(table->granule_off, sizeof(*table));
	ck_assert_uint_eq(table->pc_off, table->granule_off + 4 * (table->granule_count + 1));
	ck_assert_uint_eq(table->index_off, table->pc_off + 2 * (table->row_count + ABI_ROW_PAD));
	ck_assert_uint_ge(table->rule_off, table->index_off + 2 * table->row_count);
	ck_assert_uint_eq(table->rule_off % 4, 0);
	ck_assert_uint_ge(table->bytes, table->rule_off + 4 * table->rule_count);
	ck_assert_uint_eq(granule[0], 0);
	ck_assert_uint_eq(granule[table->granule_count], table->row_count);

	bool sound = true;
	for (uint32_t g = 0; g < table->granule_count; g++) {
		sound &= granule[g] < granule[g + 1] && granule[g + 1] <= table->row_count;
		sound &= row_pc[granule[g]] == 0;
		for (uint32_t row = granule[g] + 1; sound && row < granule[g + 1]; row++)
			sound &= row_pc[row] > row_pc[row - 1] && row_pc[row] < ABI_GRANULE_BYTES;
		ck_assert_msg(sound, "granule %u", g);
	}
	for (uint32_t row = 0; row < table->row_count; row++) {
		sound &= row_rule[row] < table->rule_count;
		unsupported += row_rule[row] == 0;
	}
	for (uint32_t i = 0; i < ABI_ROW_PAD; i++)
		sound &= row_pc[table->row_count + i] == 0xffff;
	for (uint32_t i = 0; i < table->rule_count; i++)
		sound &= rule[i] < 1u << ABI_RULE_BITS;
	ck_assert(sound);
	ck_assert_uint_eq(unsupported, table->unsupported_rows);
	ck_assert_uint_le(stats->unsupported_rows, table->unsupported_rows);
	ck_assert_uint_le(stats->rows, table->row_count);
	ck_assert_uint_eq(stats->rules, table->rule_count);
}

static struct abi_table *compile(const struct unwind_input *input, struct unwind_stats *ret_stats)
{
	struct abi_table *table;
	ck_no_err(table_compile(input, &table, ret_stats));
	check_invariants(input, table, ret_stats);
	return table;
}

static void expect_rule(const struct abi_table *table, uint64_t lo, uint64_t hi, uint32_t rule)
{
	for (uint64_t pc = lo; pc < hi; pc++)
		if (table_lookup(table, pc) != rule)
			ck_abort_msg(
				"%#lx: rule %#x, expected %#x", pc, table_lookup(table, pc), rule);
}

/* A section with one CIE, whose FDEs are added by function. */
struct section {
	struct ehwriter writer;
	struct ehcie cie;
	size_t cie_at;
};

static void section_init(struct section *section, struct ehprogram program)
{
	*section = (struct section){.writer = {.vaddr = EH_VADDR}, .cie = EHCIE_USUAL};
	section->cie.program = program;
	section->cie_at = ehwriter_cie(&section->writer, &section->cie);
}

static void add(struct section *section, uint64_t lo, uint64_t hi, struct ehprogram program)
{
	ehwriter_fde(&section->writer, section->cie_at, &section->cie, lo, hi - lo, program);
}

HT_TEST(covers_text_with_frame_rule_without_eh_frame)
{
	struct unwind_input input = {.text_lo = TEXT_LO + 16, .text_hi = TEXT_HI - 16};
	struct unwind_stats stats;
	struct abi_table *table = compile(&input, &stats);
	expect_rule(table, TEXT_LO, TEXT_HI, ABI_RULE_FRAME);
	ck_assert_uint_eq(table_lookup(table, TEXT_LO - 1), ABI_RULE_NONE);
	ck_assert_uint_eq(table_lookup(table, TEXT_HI), ABI_RULE_NONE);
	ck_assert_uint_eq(stats.rows, 1);
	ck_assert_uint_eq(stats.gap_bytes, TEXT_HI - TEXT_LO);
	free(table);

	input.text_hi = input.text_lo + 1;
	table = compile(&input, &stats);
	expect_rule(table, TEXT_LO, TEXT_LO + ABI_GRANULE_BYTES, ABI_RULE_FRAME);
	free(table);
}

HT_TEST(text_may_be_empty)
{
	struct unwind_input input = {.text_lo = TEXT_LO, .text_hi = TEXT_LO};
	struct unwind_stats stats;
	HT_FREED struct abi_table *table = compile(&input, &stats);
	ck_assert_uint_eq(table->row_count, 0);
	ck_assert_uint_eq(table_lookup(table, TEXT_LO), ABI_RULE_NONE);
}

HT_TEST(refuses_text_that_is_too_large)
{
	static const uint64_t ranges[][2] = {
		{0, (uint64_t)TABLE_TEXT_MAX + 1},
		{0x2000, 0x1000},
		{UINT64_MAX - 4096, UINT64_MAX},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(ranges); i++) {
		struct unwind_input input = {.text_lo = ranges[i][0], .text_hi = ranges[i][1]};
		struct abi_table *table;
		struct unwind_stats stats;
		ck_err(table_compile(&input, &table, &stats), HT_ERR_FORMAT);
	}
}

HT_TEST(gaps_are_padding_stubs_or_code)
{
	struct section section;
	struct unwind_stats stats;
	section_init(&section, EHPROGRAM_CIE);
	add(&section, 0x1010, 0x1100, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x110f, 0x1200, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x1210, 0x1300, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x1700, 0x1800, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x1c01, 0x2fff, EHPROGRAM(DW_CFA_nop));
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	expect_rule(table, 0x1000, 0x1010, ABI_RULE_NONE);
	expect_rule(table, 0x1010, 0x1200, RULE_AT_ENTRY);
	expect_rule(table, 0x1200, 0x1210, ABI_RULE_NONE);
	expect_rule(table, 0x1210, 0x1300, RULE_AT_ENTRY);
	expect_rule(table, 0x1300, 0x1700, ABI_RULE_NONE);
	expect_rule(table, 0x1700, 0x1800, RULE_AT_ENTRY);
	expect_rule(table, 0x1800, 0x1c01, ABI_RULE_FRAME);
	expect_rule(table, 0x1c01, 0x3000, RULE_AT_ENTRY);
	ck_assert_uint_eq(stats.fde_count, 5);
	ck_assert_uint_eq(stats.bad_fdes, 0);
	ck_assert_uint_eq(stats.gap_bytes, 0x401);
	ck_assert_uint_eq(stats.rows, 8);
	ck_assert_uint_eq(stats.unsupported_rows, 0);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_TEST(an_entry_is_the_end_of_stacks)
{
	const uint32_t end = abi_rule_make(ABI_RULE_END, 0, 0);
	struct section section;
	struct unwind_stats stats;
	section_init(&section, EHPROGRAM_CIE);
	add(&section, 0x1000, 0x1200, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x1210, 0x12f0, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x1310, 0x1400, EHPROGRAM(DW_CFA_nop));
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	ck_no_err(table_fill_at(&table, 0x1204, end));
	ck_no_err(table_fill_at(&table, 0x12f0, end));
	/* Known rules stay; beyond the table there is nothing to fill. */
	ck_no_err(table_fill_at(&table, 0x1000, end));
	ck_no_err(table_fill_at(&table, 0x9000, end));
	ck_assert(table_is_sound(table, table->bytes));
	expect_rule(table, 0x1000, 0x1200, RULE_AT_ENTRY);
	expect_rule(table, 0x1200, 0x1210, end);
	expect_rule(table, 0x1210, 0x12f0, RULE_AT_ENTRY);
	expect_rule(table, 0x12f0, 0x1310, end);
	expect_rule(table, 0x1310, 0x1400, RULE_AT_ENTRY);
	expect_rule(table, 0x1400, 0x3000, ABI_RULE_FRAME);
	ck_assert_uint_eq(table->rule_count, stats.rules + 1);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_TEST(gaps_are_found_and_filled)
{
	static const uint64_t gaps[] = {0x1000, 0x12f0, 0x1700};
	struct section section;
	struct unwind_stats stats;
	uint64_t at = 0;
	section_init(&section, EHPROGRAM_CIE);
	add(&section, 0x1010, 0x1200, EHPROGRAM(DW_CFA_nop));
	/* The CFA is in r10: a row that cannot be expressed is no gap. */
	add(&section, 0x1200, 0x12f0, EHPROGRAM(DW_CFA_def_cfa, 10, 0));
	add(&section, 0x1310, 0x1700, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x1a00, 0x2000, EHPROGRAM(DW_CFA_nop));
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	for (size_t i = 0; i < HT_ARRAY_SIZE(gaps); i++, at++) {
		ck_assert(table_find_gap(table, at, &at));
		ck_assert_uint_eq(at, gaps[i]);
	}
	ck_assert(!table_find_gap(table, at, &at));
	ck_assert(!table_find_gap(table, 0x9000, &at));
	ck_no_err(table_fill_at(&table, 0x12f0, ABI_RULE_FRAME));
	ck_assert(table_is_sound(table, table->bytes));
	expect_rule(table, 0x1200, 0x12f0, ABI_RULE_NONE);
	expect_rule(table, 0x12f0, 0x1310, ABI_RULE_FRAME);
	expect_rule(table, 0x1310, 0x1700, RULE_AT_ENTRY);
	expect_rule(table, 0x1700, 0x1a00, ABI_RULE_NONE);
	/* The table had that rule before, so it has no new one. */
	ck_assert_uint_eq(table->rule_count, stats.rules);
	ck_assert(table_find_gap(table, 0x1001, &at));
	ck_assert_uint_eq(at, 0x1700);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_TEST(a_filled_gap_ends_at_known_code)
{
	struct section section;
	struct unwind_stats stats;
	section_init(&section, EHPROGRAM_CIE);
	add(&section, 0x1000, 0x1200, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x1220, 0x1300, EHPROGRAM(DW_CFA_def_cfa, 10, 0));
	add(&section, 0x1300, 0x2000, EHPROGRAM(DW_CFA_nop));
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	expect_rule(table, 0x1220, 0x1300, ABI_RULE_NONE);
	ck_no_err(table_fill_at(&table, 0x1200, ABI_RULE_FRAME));
	expect_rule(table, 0x1200, 0x1220, ABI_RULE_FRAME);
	expect_rule(table, 0x1220, 0x1300, ABI_RULE_NONE);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_TEST(a_long_gap_is_filled_to_its_end)
{
	struct section section;
	struct unwind_stats stats;
	uint64_t at = 0;
	section_init(&section, EHPROGRAM_CIE);
	add(&section, 0x1000, 0x12f0, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x16f0, 0x2000, EHPROGRAM(DW_CFA_nop));
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	ck_assert(table_find_gap(table, 0, &at));
	ck_no_err(table_fill_at(&table, at, ABI_RULE_FRAME));
	ck_assert(!table_find_gap(table, at + 1, &at));
	expect_rule(table, 0x12f0, 0x16f0, ABI_RULE_FRAME);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_TEST(rows_cross_granules)
{
	struct section section;
	struct unwind_stats stats;
	section_init(&section, EHPROGRAM_CIE);
	add(&section, 0x1000, 0x3000,
		EHPROGRAM(DW_CFA_advance_loc1, 0xff, DW_CFA_def_cfa_offset, 16, DW_CFA_advance_loc1,
			1, DW_CFA_def_cfa_offset, 8, DW_CFA_advance_loc2, 0x81, 0x02,
			DW_CFA_def_cfa_offset, 16));
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	expect_rule(table, 0x1000, 0x10ff, RULE_AT_ENTRY);
	expect_rule(table, 0x10ff, 0x1100, RULE_PUSHED);
	expect_rule(table, 0x1100, 0x1381, RULE_AT_ENTRY);
	expect_rule(table, 0x1381, 0x3000, RULE_PUSHED);
	ck_assert_uint_eq(stats.rows, 4);
	ck_assert_uint_eq(table->row_count, 0x20 + 2);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_TEST(sorts_fdes_and_merges_equal_neighbours)
{
	struct section section;
	struct unwind_stats stats;
	section_init(&section, EHPROGRAM_CIE);
	add(&section, 0x2000, 0x3000, EHPROGRAM(DW_CFA_def_cfa_offset, 16));
	add(&section, 0x1800, 0x2000, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x1000, 0x1800, EHPROGRAM(DW_CFA_advance_loc | 5, DW_CFA_offset | 3, 2));
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	expect_rule(table, 0x1000, 0x2000, RULE_AT_ENTRY);
	expect_rule(table, 0x2000, 0x3000, RULE_PUSHED);
	ck_assert_uint_eq(stats.rows, 2);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_TEST(first_of_overlapping_fdes_wins)
{
	struct section section;
	struct unwind_stats stats;
	section_init(&section, EHPROGRAM_CIE);
	add(&section, 0x1000, 0x2000, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x1400, 0x1800, EHPROGRAM(DW_CFA_def_cfa_offset, 24));
	add(&section, 0x1f00, 0x3000,
		EHPROGRAM(DW_CFA_advance_loc1, 0x80, DW_CFA_def_cfa_offset, 16));
	add(&section, 0x1000, 0x1400, EHPROGRAM(DW_CFA_def_cfa_offset, 24));
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	expect_rule(table, 0x1000, 0x2000, RULE_AT_ENTRY);
	expect_rule(table, 0x2000, 0x3000, RULE_PUSHED);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_TEST(ranges_outside_the_text_are_cut)
{
	struct section section;
	struct unwind_stats stats;
	section_init(&section, EHPROGRAM_CIE);
	add(&section, 0, 0x100, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x0ff0, 0x1010,
		EHPROGRAM(DW_CFA_advance_loc | 16, DW_CFA_def_cfa_offset, 16));
	add(&section, 0x1010, 0x2000, EHPROGRAM(DW_CFA_nop));
	add(&section, 0x2000, 0x10000, EHPROGRAM(DW_CFA_def_cfa_offset, 16));
	add(&section, 0x20000, 0x20100, EHPROGRAM(DW_CFA_nop));
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	expect_rule(table, 0x1000, 0x1010, RULE_PUSHED);
	expect_rule(table, 0x1010, 0x2000, RULE_AT_ENTRY);
	expect_rule(table, 0x2000, 0x3000, RULE_PUSHED);
	ck_assert_uint_eq(stats.bad_fdes, 0);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_TEST(counts_what_it_cannot_use)
{
	struct section section;
	struct unwind_stats stats;
	section_init(&section, EHPROGRAM_CIE);
	add(&section, 0x1000, 0x1800, EHPROGRAM(DW_CFA_def_cfa, 10, 0));
	add(&section, 0x1800, 0x2000, EHPROGRAM(0x3f));
	add(&section, 0x2000, 0x1000, EHPROGRAM(DW_CFA_nop));
	section.cie.program = EHPROGRAM(0x3f);
	section.cie_at = ehwriter_cie(&section.writer, &section.cie);
	add(&section, 0x2800, 0x3000, EHPROGRAM(DW_CFA_nop));
	section.cie.ra_column = 5;
	section.cie_at = ehwriter_cie(&section.writer, &section.cie);
	add(&section, 0x2800, 0x3000, EHPROGRAM(DW_CFA_nop));
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	expect_rule(table, 0x1000, 0x2000, ABI_RULE_NONE);
	expect_rule(table, 0x2000, 0x3000, ABI_RULE_FRAME);
	ck_assert_uint_eq(stats.fde_count, 3);
	ck_assert_uint_eq(stats.bad_fdes, 4);
	ck_assert_uint_eq(stats.unsupported_rows, 1);
	ck_assert_uint_eq(table->unsupported_rows, 16);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_TEST(rules_beyond_the_dictionary_are_unsupported)
{
	enum { RULES = 20000 };
	struct section section;
	struct unwind_stats stats;
	struct bytes_out program = {0};
	section_init(&section, EHPROGRAM_CIE);
	for (uint32_t i = 1; i <= RULES; i++) {
		ck_no_err(bytes_out_u8(&program, DW_CFA_advance_loc | 1));
		ck_no_err(bytes_out_u8(&program, DW_CFA_def_cfa_offset));
		ck_no_err(bytes_out_uleb(&program, 8 * i));
	}
	add(&section, TEXT_LO, TEXT_LO + RULES + 1,
		(struct ehprogram){.data = program.data, .length = program.length});
	struct unwind_input input = input_of(&section.writer);
	input.text_hi = TEXT_LO + RULES + 1;
	struct abi_table *table = compile(&input, &stats);
	ck_assert_uint_eq(table_lookup(table, TEXT_LO + 1), abi_rule_make(ABI_RULE_RSP, 1, 0));
	ck_assert_uint_eq(
		table_lookup(table, TEXT_LO + 16000), abi_rule_make(ABI_RULE_RSP, 16000, 0));
	ck_assert_uint_eq(table_lookup(table, TEXT_LO + RULES), ABI_RULE_NONE);
	ck_assert_uint_gt(stats.unsupported_rows, 0);
	bytes_out_deinit(&program);
	free(table);
	ehwriter_deinit(&section.writer);
}

/* Adds functions as a compiler makes them, whose programs have each kind of instruction that the
 * interpreter knows. */
static void section_fill(struct section *section)
{
	section_init(section, EHPROGRAM_CIE);
	for (uint64_t lo = TEXT_LO; lo < TEXT_HI - 0x400; lo += 0xc0) {
		add(section, lo, lo + 0x40,
			EHPROGRAM(DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16,
				DW_CFA_offset | 6, 2, DW_CFA_advance_loc | 3,
				DW_CFA_def_cfa_register, 6, DW_CFA_remember_state,
				DW_CFA_advance_loc1, 0x20, DW_CFA_def_cfa, 7, 8,
				DW_CFA_advance_loc | 1, DW_CFA_restore_state));
		add(section, lo + 0x40, lo + 0x60,
			EHPROGRAM(DW_CFA_expression, 6, 2, DW_OP_breg6, 0,
				DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref,
				DW_CFA_advance_loc2, 4, 0, DW_CFA_GNU_args_size, 8,
				DW_CFA_offset_extended_sf, 3, 2, DW_CFA_advance_loc4, 8, 0, 0, 0));
		add(section, lo + 0x68, lo + 0xa0, EHPROGRAM(DW_CFA_undefined, 16));
	}
	ehwriter_end(&section->writer);
}

/* The copy ends where the section does: a sanitizer sees every byte read beyond. */
HT_TEST(damage_costs_rows_only)
{
	struct section section;
	uint64_t random = 2;
	section_fill(&section);
	size_t length = section.writer.out.length;
	for (int i = 0; i < MUTATIONS; i++) {
		size_t kept = random_below(&random, 8) ? length : random_below(&random, length) + 1;
		uint8_t *copy = malloc(kept);
		memcpy(copy, section.writer.out.data, kept);
		for (uint64_t n = random_below(&random, 12); n; n--)
			copy[random_below(&random, kept)] = (uint8_t)random_next(&random);
		struct unwind_input input = input_of(&section.writer);
		struct unwind_stats stats;
		input.eh_frame = copy;
		input.eh_frame_bytes = kept;
		free(compile(&input, &stats));
		free(copy);
	}
	ehwriter_deinit(&section.writer);
}

HT_TEST(lookup_trusts_nothing)
{
	struct section section;
	struct unwind_stats stats;
	uint64_t random = 3;
	section_fill(&section);
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	struct abi_table *copy = malloc(table->bytes);
	for (int i = 0; i < MUTATIONS; i++) {
		memcpy(copy, table, table->bytes);
		for (uint64_t n = random_below(&random, 6); n; n--)
			((uint8_t *)copy)[random_below(&random, sizeof(*copy))] =
				(uint8_t)random_next(&random);
		((uint8_t *)copy)[random_below(&random, table->bytes)] ^= 0xff;
		copy->bytes = table->bytes;
		for (int j = 0; j < 16; j++)
			(void)table_lookup(copy, TEXT_LO + random_below(&random, 0x2000));
		(void)table_lookup(copy, copy->lo);
		(void)table_lookup(copy, copy->hi - 1);
	}
	free(copy);
	free(table);
	ehwriter_deinit(&section.writer);
}

/* Looks up every PC like a reader that checks nothing. */
static void check_reads(const struct abi_table *table)
{
	const uint32_t *granule = table_at(table, table->granule_off);
	const uint16_t *row_pc = table_at(table, table->pc_off);
	const uint16_t *row_rule = table_at(table, table->index_off);
	const uint32_t *rule = table_at(table, table->rule_off);

	ck_assert_uint_eq((table->hi - table->lo) / ABI_GRANULE_BYTES, table->granule_count);
	for (uint32_t g = 0; g < table->granule_count; g++) {
		uint32_t row = granule[g];
		ck_assert_uint_lt(row, granule[g + 1]);
		ck_assert_uint_le(granule[g + 1], table->row_count);
		ck_assert_uint_eq(row_pc[row], 0);
		for (; row < granule[g + 1]; row++) {
			ck_assert_uint_lt(row_rule[row], table->rule_count);
			ck_assert_uint_eq(rule[row_rule[row]] >> ABI_RULE_BITS, 0);
		}
	}
}

HT_TEST(sound_tables_are_read)
{
	struct section section;
	struct unwind_stats stats;
	section_fill(&section);
	struct unwind_input input = input_of(&section.writer);
	struct abi_table *table = compile(&input, &stats);
	uint32_t bytes = table->bytes;
	uint8_t *copy = malloc(bytes);
	size_t sound = 0;
	ck_assert(!table_is_sound(table, bytes - 8));
	ck_assert(!table_is_sound(table, bytes + 8));
	ck_assert(!table_is_sound(table, 0));
	for (size_t at = 0; at < bytes; at++) {
		for (unsigned change = 1; change < 256; change++) {
			memcpy(copy, table, bytes);
			copy[at] ^= (uint8_t)change;
			if (!table_is_sound((void *)copy, bytes))
				continue;
			const struct abi_table *changed = (void *)copy;
			ck_assert_uint_eq(changed->granule_count, table->granule_count);
			ck_assert_uint_eq(changed->row_count, table->row_count);
			ck_assert_mem_eq(&changed->granule_off, &table->granule_off,
				4 * sizeof(table->granule_off));
			ck_assert_uint_le(changed->rule_off + changed->rule_count * 4, bytes);
			check_reads((void *)copy);
			sound++;
		}
	}
	/* Some changes (another rule, another place of a row) leave a table sound. */
	ck_assert_uint_gt(sound, 0);
	free(copy);
	free(table);
	ehwriter_deinit(&section.writer);
}

HT_SUITE("attach/unwind/table")
