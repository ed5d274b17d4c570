/* SPDX-License-Identifier: Apache-2.0
 *
 * Split DWARF: a file has only skeletons of its units, the rest is in .dwo files or a .dwp. libdw
 * would open whatever path a skeleton names; here the file is found and opened first, and libdw is
 * given a name in /proc/self/fd.
 */
#pragma once

#include <elfutils/libdw.h>

#include "analyzer/symbols/dwp.h"

/* Zero-initialised but for `package.file`, which is not open: holds nothing. */
struct split {
	const struct elf_file *file;
	const struct finder *finder;
	const char *path; /* of the module, in the target */
	char *strings[2]; /* copies of .debug_str and .debug_line_str, with a place for the name */
	size_t place[2];  /* where in them */
	struct dwp package;
	bool has_looked; /* for the package */
};

/* To be called before libdw sees the file. */
void split_prepare(struct split *split, const struct elf_file *file, const struct finder *finder,
	const char *path);
void split_deinit(struct split *split);
/* The whole unit that belongs to a skeleton, in `ret`. False when it is not found; `detail` gets
 * the name of what was looked for. */
bool split_find(struct split *split, Dwarf_Die *skeleton, Dwarf_Die *ret, char *detail,
	size_t detail_bytes);
