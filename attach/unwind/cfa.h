/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the CFA programs of CIE and FDE and says, address range by address range, how to unwind: as
 * an ABI_RULE_* word, or that no such word can express it. Reading of doubtful programs follows
 * libgcc, the unwinder that they were tested with. Hostile input: work is proportional to the
 * program's length, memory is fixed.
 */
#pragma once

#include "attach/unwind/eh_frame.h"
#include "format/abi_unwind.h"

/* Nested DW_CFA_remember_state; compilers use one or two. */
#define CFA_REMEMBER_MAX 32u

/* Where the caller's value of a register is. */
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
	CFA_PLT,      /* rsp + 8, and 8 more where (pc & 15) >= operand: the linker's PLT */
	CFA_UCONTEXT, /* the interrupted rsp in the ucontext at rsp */
	CFA_OTHER,
};

struct cfa_state {
	enum cfa_kind kind;
	uint64_t reg;	/* DWARF number */
	int64_t offset; /* kept through the kinds that are expressions */
	int64_t operand;
	struct cfa_place rbp, rsp, ra;
};

/* A range of addresses with one way to unwind; lo < hi. */
struct cfa_row {
	uint64_t lo, hi;
	bool expressible;
	uint32_t rule; /* ABI_RULE_NONE unless expressible */
};

struct cfa_run {
	const struct eh_section *section;
	const struct eh_cie *cie;
	struct bytes program;
	uint64_t lo, hi; /* from where no row has been given yet; end of the FDE */
	bool malformed;	 /* the program is; the rest of the range is one inexpressible row */
	struct cfa_state initial, state;
	unsigned remembered_count;
	struct cfa_state remembered[CFA_REMEMBER_MAX];
};

/* The state after the CIE's program, with which its FDEs begin. False: it is malformed. */
HT_MUST_CHECK
bool cfa_state_of_cie(
	const struct eh_section *section, const struct eh_cie *cie, struct cfa_state *ret);

/* Starts the program of `fde`. `section` and fde->cie are borrowed until the last cfa_run_next. */
void cfa_run_start(struct cfa_run *run, const struct eh_section *section, const struct eh_fde *fde,
	const struct cfa_state *initial);
/* Gives the next row: together they cover [fde->lo, fde->hi) ascending without a hole. Neighbours
 * may have equal rules. False: there are no more. */
HT_MUST_CHECK
bool cfa_run_next(struct cfa_run *run, struct cfa_row *ret);
