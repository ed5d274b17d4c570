/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds an .eh_frame section in memory, sound or damaged. Zero-initialised it is empty; set
 * `vaddr` before the first entry. Running out of memory fails the test.
 */
#pragma once

#include "format/bytes.h"

struct ehwriter {
	struct bytes_out out;
	uint64_t vaddr; /* link-time address of out.data[0] */
};

/* Bytes of a CFA program: EHPROGRAM(DW_CFA_advance_loc | 1, DW_CFA_nop). */
struct ehprogram {
	const uint8_t *data;
	size_t length;
};

#define EHPROGRAM(...)                                                                             \
	((struct ehprogram){.data = (const uint8_t[]){__VA_ARGS__},                                \
		.length = sizeof((const uint8_t[]){__VA_ARGS__})})

/* CFA = rsp + 8, return address at CFA - 8: the rules at a function's first instruction. */
#define EHPROGRAM_CIE EHPROGRAM(DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1)

struct ehcie {
	uint8_t version;
	const char *augmentation; /* after 'z' the letters L, P and R get their data */
	uint8_t encoding;	  /* for 'R': pc-relative or absolute, of any width */
	uint8_t personality;	  /* encoding for 'P' */
	uint8_t code_align;	  /* one LEB128 byte each */
	uint8_t data_align;
	uint8_t ra_column;
	struct ehprogram program;
};

/* The CIE that gcc and clang write. */
#define EHCIE_USUAL                                                                                \
	((struct ehcie){.version = 1,                                                              \
		.augmentation = "zR",                                                              \
		.encoding = DW_EH_PE_pcrel | DW_EH_PE_sdata4,                                      \
		.personality = DW_EH_PE_indirect | DW_EH_PE_pcrel | DW_EH_PE_sdata4,               \
		.code_align = 1,                                                                   \
		.data_align = 0x78,                                                                \
		.ra_column = 16,                                                                   \
		.program = EHPROGRAM_CIE})

void ehwriter_deinit(struct ehwriter *writer);
/* Appends; returns the entry's offset. */
size_t ehwriter_cie(struct ehwriter *writer, const struct ehcie *cie);
/* Appends an FDE of the CIE at `cie_offset`, which `cie` describes, for [lo, lo + range). */
void ehwriter_fde(struct ehwriter *writer, size_t cie_offset, const struct ehcie *cie, uint64_t lo,
	uint64_t range, struct ehprogram program);
/* Appends the zero length word. */
void ehwriter_end(struct ehwriter *writer);
