/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/cfa.h"

#include <dwarf.h>
#include <string.h>

#include "tests/support/ehwriter.h"
#include "tests/support/ht_check.h"

#define LO	 0x1000u
#define HI	 0x1100u
#define ROWS_MAX 5

enum { RAX = 0, RBX = 3, RBP = 6, RSP = 7, R10 = 10, RA = 16 };

#define GNU_NEGATIVE_OFFSET_EXTENDED 0x2f

/* The layout of abi_unwind.h once more, as a constant. */
#define RULE(kind, words, slot)                                                                    \
	((uint32_t)(kind) | (uint32_t)(uint16_t)(words) << 3 | (uint32_t)(slot) << 19)
#define RSP_RULE(words, slot) RULE(ABI_RULE_RSP, words, slot)
#define RBP_RULE(words, slot) RULE(ABI_RULE_RBP, words, slot)
#define NOT_EXPRESSIBLE	      UINT32_MAX

/* Rows that follow one another from LO; the first with `hi` == HI is the last. */
struct expected_row {
	uint32_t hi;
	uint32_t rule; /* or NOT_EXPRESSIBLE */
};

struct program_case {
	const char *name;
	struct ehprogram program;
	struct expected_row row[ROWS_MAX];
	bool malformed;
};

struct one_fde {
	struct ehwriter writer;
	struct eh_reader reader;
	struct eh_fde fde;
};

static void one_fde_make(struct one_fde *one, const struct ehcie *cie, struct ehprogram program)
{
	*one = (struct one_fde){.writer = {.vaddr = 0x3000}};
	size_t at = ehwriter_cie(&one->writer, cie);
	ehwriter_fde(&one->writer, at, cie, LO, HI - LO, program);
	struct eh_section section = {
		.bytes = bytes_of(one->writer.out.data, one->writer.out.length), .vaddr = 0x3000};
	eh_reader_init(&one->reader, &section);
	ck_assert_int_eq(eh_frame_next(&one->reader, &one->fde), EH_FDE);
}

static void expect_rows(const char *name, const struct ehcie *cie, struct ehprogram program,
	const struct expected_row *expected, bool malformed)
{
	struct one_fde one;
	struct cfa_state initial;
	struct cfa_run run;
	struct cfa_row row;
	uint64_t lo = LO;

	one_fde_make(&one, cie, program);
	ck_assert(cfa_state_of_cie(&one.reader.section, one.fde.cie, &initial));
	cfa_run_start(&run, &one.reader.section, &one.fde, &initial);
	while (cfa_run_next(&run, &row)) {
		ck_assert_msg(row.lo == lo && row.hi == expected->hi, "%s: %#lx to %#lx", name,
			row.lo, row.hi);
		if (expected->rule == NOT_EXPRESSIBLE)
			ck_assert_msg(!row.expressible && row.rule == ABI_RULE_NONE, "%s", name);
		else
			ck_assert_msg(row.expressible && row.rule == expected->rule,
				"%s: rule %#x at %#lx", name, row.rule, row.lo);
		lo = row.hi;
		expected++;
	}
	ck_assert_msg(lo == HI, "%s: ends at %#lx", name, lo);
	ck_assert_msg(run.malformed == malformed, "%s", name);
	ehwriter_deinit(&one.writer);
}

static void expect_cases(const struct program_case *cases, size_t count)
{
	struct ehcie cie = EHCIE_USUAL;
	for (size_t i = 0; i < count; i++)
		expect_rows(
			cases[i].name, &cie, cases[i].program, cases[i].row, cases[i].malformed);
}

/* The program `...` makes one row, `result`, for the whole FDE. */
#define WHOLE(title, result, ...)                                                                  \
	{                                                                                          \
		.name = title, .program = EHPROGRAM(__VA_ARGS__), .row = {{HI, result}},           \
	}

/* Instructions behind which no unwinder can go on: the whole FDE has no rule. */
#define MALFORMED(title, ...)                                                                      \
	{                                                                                          \
		.name = title, .program = EHPROGRAM(__VA_ARGS__), .row = {{HI, NOT_EXPRESSIBLE}},  \
		.malformed = true,                                                                 \
	}

static const struct program_case register_cases[] = {
	WHOLE("entry of a function", RSP_RULE(1, 0), DW_CFA_nop),
	WHOLE("def_cfa_offset", RSP_RULE(2, 0), DW_CFA_def_cfa_offset, 16),
	WHOLE("def_cfa_register", RBP_RULE(1, 0), DW_CFA_def_cfa_register, RBP),
	WHOLE("def_cfa", RBP_RULE(2, 0), DW_CFA_def_cfa, RBP, 16),
	WHOLE("def_cfa_sf", RSP_RULE(3, 0), DW_CFA_def_cfa_sf, RSP, 0x7d),
	WHOLE("def_cfa_offset_sf", RSP_RULE(3, 0), DW_CFA_def_cfa_offset_sf, 0x7d),
	WHOLE("CFA below the register", RBP_RULE(-1, 0), DW_CFA_def_cfa_sf, RBP, 1),
	WHOLE("largest offset", RSP_RULE(INT16_MAX, 0), DW_CFA_def_cfa_offset, 0xf8, 0xff, 0x0f),
	WHOLE("offset too large", NOT_EXPRESSIBLE, DW_CFA_def_cfa_offset, 0x80, 0x80, 0x10),
	WHOLE("offset not in words", NOT_EXPRESSIBLE, DW_CFA_def_cfa_offset, 12),
	WHOLE("CFA by another register", NOT_EXPRESSIBLE, DW_CFA_def_cfa, R10, 0),

	WHOLE("offset", RSP_RULE(1, 2), DW_CFA_offset | RBP, 2),
	WHOLE("offset_extended", RSP_RULE(1, 2), DW_CFA_offset_extended, RBP, 2),
	WHOLE("offset_extended_sf", RSP_RULE(1, 2), DW_CFA_offset_extended_sf, RBP, 2),
	WHOLE("negative offset, above the CFA", NOT_EXPRESSIBLE, GNU_NEGATIVE_OFFSET_EXTENDED, RBP,
		2),
	WHOLE("largest slot", RSP_RULE(1, 255), DW_CFA_offset | RBP, 0xff, 0x01),
	WHOLE("slot too large", NOT_EXPRESSIBLE, DW_CFA_offset | RBP, 0x80, 0x02),
	WHOLE("slot at the CFA", NOT_EXPRESSIBLE, DW_CFA_offset | RBP, 0),
	WHOLE("slot above the CFA", NOT_EXPRESSIBLE, DW_CFA_offset_extended_sf, RBP, 0x7e),
	WHOLE("restore", RSP_RULE(1, 0), DW_CFA_offset | RBP, 2, DW_CFA_restore | RBP),
	WHOLE("restore_extended", RSP_RULE(1, 0), DW_CFA_offset | RBP, 2, DW_CFA_restore_extended,
		RBP),
	WHOLE("same_value", RSP_RULE(1, 0), DW_CFA_offset | RBP, 2, DW_CFA_same_value, RBP),
	WHOLE("undefined rbp", RSP_RULE(1, 0), DW_CFA_undefined, RBP),
	WHOLE("rbp in a register", NOT_EXPRESSIBLE, DW_CFA_register, RBP, RAX),
	WHOLE("rbp is a value", NOT_EXPRESSIBLE, DW_CFA_val_offset, RBP, 1),
	WHOLE("rbp is a value, sf", NOT_EXPRESSIBLE, DW_CFA_val_offset_sf, RBP, 1),
	WHOLE("rbp is computed", NOT_EXPRESSIBLE, DW_CFA_val_expression, RBP, 2, DW_OP_breg6, 0),
	WHOLE("rbp at a computed place", NOT_EXPRESSIBLE, DW_CFA_expression, RBP, 2, DW_OP_breg7,
		8),
	WHOLE("registers that no walk needs", RSP_RULE(1, 0), DW_CFA_offset | RBX, 3,
		DW_CFA_register, 12, 13, DW_CFA_expression, 14, 2, DW_OP_breg10, 0,
		DW_CFA_undefined, 15, DW_CFA_restore | RBX, DW_CFA_GNU_args_size, 32),

	WHOLE("outermost frame", ABI_RULE_END, DW_CFA_undefined, RA),
	WHOLE("outermost though CFA is odd", ABI_RULE_END, DW_CFA_undefined, RA, DW_CFA_def_cfa,
		R10, 0),
	WHOLE("return address elsewhere", NOT_EXPRESSIBLE, DW_CFA_offset | RA, 2),
	WHOLE("return address in a register", NOT_EXPRESSIBLE, DW_CFA_register, RA, RAX),
	WHOLE("return address back", RSP_RULE(1, 0), DW_CFA_undefined, RA, DW_CFA_restore | RA),
	WHOLE("rsp saved", NOT_EXPRESSIBLE, DW_CFA_offset | RSP, 2),
	WHOLE("rsp in a register", NOT_EXPRESSIBLE, DW_CFA_register, RSP, RAX),
};

HT_TEST(rules_of_registers)
{
	expect_cases(register_cases, HT_ARRAY_SIZE(register_cases));
}

#define PLT_EXPRESSION(threshold)                                                                  \
	DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and,    \
		DW_OP_lit0 + (threshold), DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus
#define DRAP_EXPRESSION(offset) DW_CFA_def_cfa_expression, 3, DW_OP_breg6, offset, DW_OP_deref
#define DRAP_RBP		DW_CFA_expression, RBP, 2, DW_OP_breg6, 0
#define UCONTEXT_EXPRESSION	DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 0xa0, 0x01, DW_OP_deref

static const struct program_case expression_cases[] = {
	WHOLE("PLT", RULE(ABI_RULE_PLT, 11, 0), PLT_EXPRESSION(11)),
	WHOLE("PLT, never", RULE(ABI_RULE_PLT, 16, 0), PLT_EXPRESSION(16)),
	WHOLE("PLT beyond", NOT_EXPRESSIBLE, PLT_EXPRESSION(17)),
	WHOLE("PLT that saves rbp", NOT_EXPRESSIBLE, PLT_EXPRESSION(11), DW_CFA_offset | RBP, 2),
	WHOLE("nearly PLT", NOT_EXPRESSIBLE, DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 16,
		DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3,
		DW_OP_shl, DW_OP_plus),
	WHOLE("realigned", RULE(ABI_RULE_DRAP, -1, 0), DRAP_RBP, DRAP_EXPRESSION(0x78)),
	WHOLE("realigned, far", RULE(ABI_RULE_DRAP, -16, 0), DRAP_RBP, DW_CFA_def_cfa_expression, 4,
		DW_OP_breg6, 0x80, 0x7f, DW_OP_deref),
	WHOLE("realigned, above rbp", NOT_EXPRESSIBLE, DRAP_RBP, DRAP_EXPRESSION(8)),
	WHOLE("realigned, not in words", NOT_EXPRESSIBLE, DRAP_RBP, DRAP_EXPRESSION(0x79)),
	WHOLE("realigned, rbp unknown", NOT_EXPRESSIBLE, DRAP_EXPRESSION(0x78)),
	WHOLE("realigned, rbp at CFA", NOT_EXPRESSIBLE, DRAP_EXPRESSION(0x78), DW_CFA_offset | RBP,
		2),
	WHOLE("rbp at rbp, CFA by rsp", NOT_EXPRESSIBLE, DRAP_RBP),
	WHOLE("more than DRAP", NOT_EXPRESSIBLE, DRAP_RBP, DW_CFA_def_cfa_expression, 5,
		DW_OP_breg6, 0x78, DW_OP_deref, DW_OP_plus_uconst, 8),
	WHOLE("empty expression", NOT_EXPRESSIBLE, DW_CFA_def_cfa_expression, 0),
	WHOLE("not a signal frame", NOT_EXPRESSIBLE, UCONTEXT_EXPRESSION),
	WHOLE("libgcc: a register takes up the old offset", RBP_RULE(1, 0), DRAP_EXPRESSION(0x78),
		DW_CFA_def_cfa_register, RBP),
	WHOLE("libgcc: an offset leaves the expression", RULE(ABI_RULE_DRAP, -1, 0), DRAP_RBP,
		DRAP_EXPRESSION(0x78), DW_CFA_def_cfa_offset, 16),
};

HT_TEST(rules_of_expressions)
{
	expect_cases(expression_cases, HT_ARRAY_SIZE(expression_cases));
}

static const struct program_case location_cases[] = {
	{
		.name = "advances of every width",
		.program = EHPROGRAM(DW_CFA_advance_loc | 4, DW_CFA_def_cfa_offset, 16,
			DW_CFA_advance_loc1, 0x10, DW_CFA_def_cfa_offset, 24, DW_CFA_advance_loc2,
			0x20, 0, DW_CFA_def_cfa_offset, 32),
		.row = {{LO + 4, RSP_RULE(1, 0)}, {LO + 0x14, RSP_RULE(2, 0)},
			{LO + 0x34, RSP_RULE(3, 0)}, {HI, RSP_RULE(4, 0)}},
	},
	{
		.name = "advance_loc4 and set_loc",
		.program = EHPROGRAM(DW_CFA_advance_loc4, 0x80, 0, 0, 0, DW_CFA_def_cfa_offset, 16,
			DW_CFA_set_loc, 0x90, 0x10, 0, 0, 0, 0, 0, 0, DW_CFA_def_cfa_offset, 24),
		.row = {{LO + 0x80, RSP_RULE(1, 0)}, {LO + 0x90, RSP_RULE(2, 0)},
			{HI, RSP_RULE(3, 0)}},
	},
	{
		.name = "advance by nothing",
		.program = EHPROGRAM(DW_CFA_advance_loc, DW_CFA_def_cfa_offset, 16),
		.row = {{HI, RSP_RULE(2, 0)}},
	},
	{
		.name = "advance to the end and beyond",
		.program = EHPROGRAM(DW_CFA_advance_loc4, 0, 0, 1, 0, DW_CFA_def_cfa_offset, 16),
		.row = {{HI, RSP_RULE(1, 0)}},
	},
	{
		.name = "prologue and epilogue",
		.program = EHPROGRAM(DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16,
			DW_CFA_offset | RBP, 2, DW_CFA_advance_loc | 3, DW_CFA_def_cfa_register,
			RBP, DW_CFA_advance_loc | 32, DW_CFA_remember_state, DW_CFA_def_cfa, RSP, 8,
			DW_CFA_advance_loc | 1, DW_CFA_restore_state),
		.row = {{LO + 1, RSP_RULE(1, 0)}, {LO + 4, RSP_RULE(2, 2)},
			{LO + 36, RBP_RULE(2, 2)}, {LO + 37, RSP_RULE(1, 2)}, {HI, RBP_RULE(2, 2)}},
	},
	{
		.name = "states nest",
		.program = EHPROGRAM(DW_CFA_remember_state, DW_CFA_def_cfa_offset, 16,
			DW_CFA_remember_state, DW_CFA_def_cfa_offset, 24, DW_CFA_advance_loc | 1,
			DW_CFA_restore_state, DW_CFA_advance_loc | 1, DW_CFA_restore_state),
		.row = {{LO + 1, RSP_RULE(3, 0)}, {LO + 2, RSP_RULE(2, 0)}, {HI, RSP_RULE(1, 0)}},
	},
	MALFORMED("set_loc backwards", DW_CFA_set_loc, 0xff, 0x0f, 0, 0, 0, 0, 0, 0),
	{
		.name = "what comes before a malformed instruction holds",
		.program = EHPROGRAM(DW_CFA_def_cfa_offset, 16, DW_CFA_advance_loc | 8,
			DW_CFA_def_cfa_offset, 24, 0x3f, DW_CFA_advance_loc | 8),
		.row = {{LO + 8, RSP_RULE(2, 0)}, {HI, NOT_EXPRESSIBLE}},
		.malformed = true,
	},
};

HT_TEST(rows_follow_locations)
{
	struct ehcie cie = EHCIE_USUAL;
	cie.encoding = DW_EH_PE_udata8;
	for (size_t i = 0; i < HT_ARRAY_SIZE(location_cases); i++)
		expect_rows(location_cases[i].name, &cie, location_cases[i].program,
			location_cases[i].row, location_cases[i].malformed);
}

static const struct program_case malformed_cases[] = {
	MALFORMED("unknown opcode", 0x17),
	MALFORMED("SPARC's window_save", 0x2d),
	MALFORMED("user opcode", 0x3c),
	MALFORMED("restore_state without remember_state", DW_CFA_restore_state),
	MALFORMED("LEB128 beyond 64 bits", DW_CFA_def_cfa_offset, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
	MALFORMED("block beyond the entry", DW_CFA_def_cfa_expression, 100, DW_OP_breg7, 8),
	MALFORMED("block of 2^63 bytes", DW_CFA_def_cfa_expression, 0x80, 0x80, 0x80, 0x80, 0x80,
		0x80, 0x80, 0x80, 0x80, 0x01),
};

HT_TEST(malformed_programs_cost_their_rows)
{
	expect_cases(malformed_cases, HT_ARRAY_SIZE(malformed_cases));
}

HT_TEST(remembers_no_more_than_the_limit)
{
	uint8_t program[2 * CFA_REMEMBER_MAX + 2];
	struct ehcie cie = EHCIE_USUAL;
	memset(program, DW_CFA_remember_state, CFA_REMEMBER_MAX);
	memset(program + CFA_REMEMBER_MAX, DW_CFA_restore_state, CFA_REMEMBER_MAX);
	struct ehprogram deep = {.data = program, .length = 2 * CFA_REMEMBER_MAX};
	expect_rows("deepest", &cie, deep, &(struct expected_row){HI, RSP_RULE(1, 0)}, false);

	memset(program, DW_CFA_remember_state, CFA_REMEMBER_MAX + 1);
	struct ehprogram deeper = {.data = program, .length = CFA_REMEMBER_MAX + 1};
	expect_rows("deeper", &cie, deeper, &(struct expected_row){HI, NOT_EXPRESSIBLE}, true);
}

HT_TEST(kernel_signal_frame)
{
	struct ehcie cie = EHCIE_USUAL;
	cie.augmentation = "zRS";
	expect_rows("trampoline", &cie,
		EHPROGRAM(UCONTEXT_EXPRESSION, DW_CFA_expression, RA, 3, DW_OP_breg7, 0xa8, 0x01),
		&(struct expected_row){HI, ABI_RULE_SIGNAL}, false);
	expect_rows("an ordinary frame that was interrupted", &cie, EHPROGRAM(DW_CFA_nop),
		&(struct expected_row){HI, RSP_RULE(1, 0)}, false);
}

HT_TEST(distances_have_the_unit_of_the_cie)
{
	struct ehcie cie = EHCIE_USUAL;
	cie.code_align = 4;
	expect_rows("units of 4", &cie,
		EHPROGRAM(DW_CFA_advance_loc | 4, DW_CFA_def_cfa_offset, 16),
		(struct expected_row[]){{LO + 16, RSP_RULE(1, 0)}, {HI, RSP_RULE(2, 0)}}, false);
}

HT_TEST(offsets_have_the_unit_of_the_cie)
{
	struct ehcie cie = EHCIE_USUAL;
	cie.data_align = 8;
	cie.program = EHPROGRAM(DW_CFA_def_cfa, RSP, 8, DW_CFA_offset_extended_sf, RA, 0x7f);
	expect_rows("units of +8", &cie, EHPROGRAM(GNU_NEGATIVE_OFFSET_EXTENDED, RBP, 2),
		&(struct expected_row){HI, RSP_RULE(1, 2)}, false);
}

HT_TEST(restore_goes_back_to_the_cie)
{
	struct ehcie cie = EHCIE_USUAL;
	cie.program =
		EHPROGRAM(DW_CFA_def_cfa, RSP, 16, DW_CFA_offset | RA, 1, DW_CFA_offset | RBP, 2);
	expect_rows("restore", &cie,
		EHPROGRAM(DW_CFA_same_value, RBP, DW_CFA_advance_loc | 1, DW_CFA_restore | RBP),
		(struct expected_row[]){{LO + 1, RSP_RULE(2, 0)}, {HI, RSP_RULE(2, 2)}}, false);
}

HT_TEST(empty_state_is_not_expressible)
{
	struct ehcie cie = EHCIE_USUAL;
	cie.program = EHPROGRAM(DW_CFA_nop);
	expect_rows("no CFA", &cie, EHPROGRAM(DW_CFA_nop),
		&(struct expected_row){HI, NOT_EXPRESSIBLE}, false);
}

HT_TEST(cie_programs_have_no_locations)
{
	static const uint8_t bad[] = {DW_CFA_advance_loc | 1, DW_CFA_restore_state, 0x17};
	for (size_t i = 0; i < sizeof(bad); i++) {
		struct ehcie cie = EHCIE_USUAL;
		struct one_fde one;
		struct cfa_state initial;
		cie.program = (struct ehprogram){.data = &bad[i], .length = 1};
		one_fde_make(&one, &cie, EHPROGRAM(DW_CFA_nop));
		ck_assert(!cfa_state_of_cie(&one.reader.section, one.fde.cie, &initial));
		ehwriter_deinit(&one.writer);
	}
}

HT_SUITE("attach/unwind/cfa")
