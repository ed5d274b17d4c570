/* SPDX-License-Identifier: Apache-2.0
 *
 * Packages of split debug information (.dwp). libdw before elfutils 0.191 cannot read them, so a
 * unit is copied out of the package into a file of its own.
 */
#pragma once

#include "analyzer/symbols/elf_file.h"

#define DWP_SECTIONS_MAX 8u

/* Empty if zero-initialised with `file` not open (fd -1). */
struct dwp {
	struct elf_file file;
	bool is_5; /* DWARF 5; otherwise GNU's format for DWARF 4 */
	uint32_t section_count, unit_count, slot_count;
	struct bytes ids, rows, kinds, offsets, sizes; /* parts of .debug_cu_index */
	uint64_t copied_bytes;
};

/* Takes ownership of `fd`. False if it is no package; `dwp` is then not open. */
bool dwp_take(struct dwp *dwp, int fd);
void dwp_close(struct dwp *dwp);
/* A descriptor, owned by the caller, of a new .dwo file in memory with the unit of this id; -1 if
 * the package lacks the unit, too many bytes were copied already, or memory is out. */
int dwp_unit(struct dwp *dwp, uint64_t id);
