/* SPDX-License-Identifier: Apache-2.0
 *
 * Split DWARF: a file contains only skeletons of its units; the rest is in .dwo files or a .dwp
 * file. libdw would open any path that a skeleton names. So the file is searched and opened here
 * first, and libdw gets its name in /proc/self/fd.
 */
#pragma once

#include <elfutils/libdw.h>

#include "analyzer/symbols/dwp.h"

/* Empty if zero-initialised with `package.file` not open (fd -1). */
struct split {
	const struct elf_file *file;
	const struct finder *finder;
	const char *path; /* of the module, in the target */
	char *strings[2]; /* copies of .debug_str and .debug_line_str, with room for a name at their
			     end */
	size_t place[2];  /* offset of that room */
	struct dwp package;
	bool has_looked; /* the package was searched */
};

/* Call before libdw opens the file. */
void split_prepare(struct split *split, const struct elf_file *file, const struct finder *finder,
	const char *path);
void split_deinit(struct split *split);
/* The whole unit that belongs to a skeleton, in `ret`. False if it is not found; `detail` then gets
 * the name of the file that was searched. */
bool split_find(struct split *split, Dwarf_Die *skeleton, Dwarf_Die *ret, char *detail,
	size_t detail_bytes);
