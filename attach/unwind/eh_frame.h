/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes an .eh_frame section apart: CIEs, FDEs, encoded pointers. Says which addresses have a CFA
 * program and where its bytes lie; cfa.h runs it. Hostile input: every read is bounded, and the
 * work per entry is at most proportional to its length plus EH_CIE_MAX.
 */
#pragma once

#include "format/bytes.h"

/* A CIE serves many FDEs and is read again when they alternate: a longer one is malformed. Real
 * ones have 16 to 40 bytes. */
#define EH_CIE_MAX 512u

struct eh_section {
	struct bytes bytes;
	uint64_t vaddr; /* link-time address of bytes.at[0] */
};

struct eh_cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t pointer_encoding; /* of the addresses in its FDEs */
	bool augmented;		  /* its FDEs have augmentation data */
	bool signal_frame;	  /* 'S': the caller was interrupted, it did not call */
	struct bytes program;
	uint64_t serial; /* from 1; another one each time a CIE is read */
};

struct eh_fde {
	uint64_t lo, hi; /* link-time addresses, lo <= hi */
	struct bytes program;
	const struct eh_cie *cie; /* in the reader, until the next eh_frame_next */
};

struct eh_reader {
	struct eh_section section;
	struct bytes rest; /* after EH_END: empty, behind what was read */
	bool terminated;   /* the section's end was found: a zero length word */
	struct eh_cie cie;
	const uint8_t *cie_at; /* its length word; NULL: `cie` is not valid */
	uint64_t cie_serial;
};

enum eh_result {
	EH_FDE,
	EH_BAD, /* an entry is malformed; the next call goes on behind it where that is possible */
	EH_END,
};

/* The section's bytes are borrowed for the reader's life. */
void eh_reader_init(struct eh_reader *reader, const struct eh_section *section);
/* Gives the next FDE. `ret` is set only for EH_FDE. */
HT_MUST_CHECK
enum eh_result eh_frame_next(struct eh_reader *reader, struct eh_fde *ret);

/*
 * Takes a pointer with the DW_EH_PE_* `encoding` off `in`, which must lie in `section`. Supports
 * absolute and pc-relative ones of every width; false for the others, and when bytes are missing.
 */
HT_MUST_CHECK
bool eh_pointer(
	struct bytes *in, const struct eh_section *section, uint8_t encoding, uint64_t *ret);
