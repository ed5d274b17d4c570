/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses an .eh_frame section: CIEs, FDEs, encoded pointers. Finds which addresses have a CFA
 * program, and its bytes; cfa.h runs it. Input is hostile: every read is bounded, and the work for
 * an entry is at most proportional to its length plus EH_CIE_MAX.
 */
#pragma once

#include "format/bytes.h"

/* Bytes of a CIE. CIEs whose FDEs alternate are parsed again for each FDE, so a longer CIE counts
 * as malformed. Real CIEs have 16 to 40 bytes. */
#define EH_CIE_MAX 512u

struct eh_section {
	struct bytes bytes;
	uint64_t vaddr; /* link-time address of bytes.at[0] */
};

struct eh_cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t pointer_encoding; /* of addresses in its FDEs */
	bool augmented;		  /* its FDEs have augmentation data */
	bool signal_frame;	  /* 'S': the caller was interrupted instead of making a call */
	struct bytes program;
	uint64_t serial; /* from 1, another one each time a CIE is parsed */
};

struct eh_fde {
	uint64_t lo, hi; /* link-time addresses, lo <= hi */
	struct bytes program;
	const struct eh_cie *cie; /* in the reader; valid until the next eh_frame_next */
};

struct eh_reader {
	struct eh_section section;
	struct bytes rest; /* unread bytes; after EH_END empty, behind the last entry */
	bool terminated;   /* a zero length word ended the section */
	struct eh_cie cie;
	const uint8_t *cie_at; /* its length word; NULL: `cie` is invalid */
	uint64_t cie_serial;
};

enum eh_result {
	EH_FDE,
	EH_BAD, /* a malformed entry; the next call continues behind it if possible */
	EH_END,
};

/* Borrows the section's bytes for the life of the reader. */
void eh_reader_init(struct eh_reader *reader, const struct eh_section *section);
/* Returns the next FDE. Sets `ret` only for EH_FDE. */
HT_MUST_CHECK
enum eh_result eh_frame_next(struct eh_reader *reader, struct eh_fde *ret);

/* Reads a pointer with the DW_EH_PE_* `encoding` from `in`, which must lie in `section`. Supports
 * absolute and pc-relative ones of every width. False: another encoding, or bytes are missing. */
HT_MUST_CHECK
bool eh_pointer(
	struct bytes *in, const struct eh_section *section, uint8_t encoding, uint64_t *ret);
