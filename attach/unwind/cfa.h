/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the CFA programs of a CIE and an FDE. Tells for each address range how to unwind, as an
 * ABI_RULE_* word, or that no such word can express it. Reads doubtful programs like libgcc, the
 * unwinder that they were tested with. Input is hostile: work is proportional to the program's
 * length, memory is fixed.
 */
#pragma once

#include "attach/unwind/eh_frame.h"
#include "format/abi_unwind.h"

/* Nesting of DW_CFA_remember_state; compilers use one or two levels. */
#define CFA_REMEMBER_MAX 32u

/* The place of the caller's value of a register. */
enum cfa_place_kind {
	CFA_PLACE_DEFAULT, /* not mentioned: rbp keeps its value, rsp is the CFA */
	CFA_PLACE_SAME,
	CFA_PLACE_UNDEFINED,
	CFA_PLACE_AT_CFA, /* in memory at CFA + offset */
	CFA_PLACE_AT_RBP, /* in memory where rbp points */
	CFA_PLACE_OTHER,
};

struct cfa_place {
	enum cfa_place_kind kind;
	int64_t offset;
};

enum cfa_kind {
	CFA_UNSET,
	CFA_REGISTER, /* reg + offset */
	CFA_DRAP,     /* *(rbp + operand) */
	CFA_PLT,      /* rsp + 8, plus 8 where (pc & 15) >= operand: the linker's PLT */
	CFA_UCONTEXT, /* the interrupted rsp, in the ucontext at rsp */
	CFA_OTHER,
};

struct cfa_state {
	enum cfa_kind kind;
	uint64_t reg;	/* DWARF number */
	int64_t offset; /* kept while the kind is an expression */
	int64_t operand;
	struct cfa_place rbp, rsp, ra;
};

/* A range of addresses with one way to unwind; lo < hi. */
struct cfa_row {
	uint64_t lo, hi;
	bool expressible;
	uint32_t rule; /* ABI_RULE_NONE if no rule can express it */
};

struct cfa_run {
	const struct eh_section *section;
	const struct eh_cie *cie;
	struct bytes program;
	uint64_t lo, hi; /* beginning of the next row; end of the FDE */
	bool malformed;	 /* the program is malformed: the rest of the range is one inexpressible row
			  */
	struct cfa_state initial, state;
	unsigned remembered_count;
	struct cfa_state remembered[CFA_REMEMBER_MAX];
};

/* Runs the program of a CIE. Its FDEs begin with the state `ret`. False: malformed. */
HT_MUST_CHECK
bool cfa_state_of_cie(
	const struct eh_section *section, const struct eh_cie *cie, struct cfa_state *ret);

/* Starts the program of `fde`. Borrows `section` and fde->cie until the last cfa_run_next. */
void cfa_run_start(struct cfa_run *run, const struct eh_section *section, const struct eh_fde *fde,
	const struct cfa_state *initial);
/* Returns the next row. The rows cover [fde->lo, fde->hi), ascending and without a hole. Neighbours
 * may have equal rules. False: no more rows. */
HT_MUST_CHECK
bool cfa_run_next(struct cfa_run *run, struct cfa_row *ret);
