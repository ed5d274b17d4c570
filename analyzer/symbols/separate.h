/* SPDX-License-Identifier: Apache-2.0
 *
 * Debug information of a module outside its file (a debug file, found by build-id or
 * .gnu_debuglink) or compressed within it (MiniDebugInfo).
 */
#pragma once

#include "analyzer/symbols/elf_file.h"

/* Opens the separate debug file of a module: by its build-id; otherwise by the link in `file`
 * (which need not be open): in .debug of the module's directory, below /usr/lib/debug, in the
 * module's directory, and in --debug-dir, in this order. A linked file must have the module's
 * build-id; if one of them has none, the checksum in the link. `detail` gets the path of a file of
 * another build that was found; "": none. */
void separate_open(struct elf_file *ret, const struct finder *finder, const struct elf_file *file,
	const struct module *module, char *detail, size_t detail_bytes);
/* Opens the symbols in .gnu_debugdata, if the file has this section. */
void separate_open_packed(struct elf_file *ret, const struct elf_file *file);
