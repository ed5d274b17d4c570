/* SPDX-License-Identifier: Apache-2.0
 *
 * Packages of split debug information (.dwp), from which libdw of elfutils before 0.191 reads
 * nothing: one unit is taken out of a package as a file of its own.
 */
#pragma once

#include "analyzer/symbols/elf_file.h"

#define DWP_SECTIONS_MAX 8u

/* Zero-initialised but for the file, which is not open: holds nothing. */
struct dwp {
	struct elf_file file;
	bool is_5; /* of DWARF 5; else GNU's own format */
	uint32_t section_count, unit_count, slot_count;
	struct bytes ids, rows, kinds, offsets, sizes; /* parts of .debug_cu_index */
	uint64_t copied_bytes;
};

/* Takes over `fd`; false, and `dwp` is not open, when that is no package. */
bool dwp_take(struct dwp *dwp, int fd);
void dwp_close(struct dwp *dwp);
/* A descriptor of a .dwo file with the unit of this id; -1 when it is not in the package, or too
 * much was taken out already. */
int dwp_unit(struct dwp *dwp, uint64_t id);
