/* SPDX-License-Identifier: Apache-2.0
 *
 * Debug information of a module that stands outside its file, or packed in it: a debug file by
 * build-id or by .gnu_debuglink, and the symbols of MiniDebugInfo.
 */
#pragma once

#include "analyzer/symbols/elf_file.h"

/* Opens the separate debug file of a module: by its build-id, else by the link in `file` (which may
 * not be open), beside the module, in .debug there, below /usr/lib/debug and in --debug-dir. A
 * linked file must have the same build-id, or the checksum that the link tells.
 * `detail` gets the path of one that belongs to another build; "" if there was none. */
void separate_open(struct elf_file *ret, const struct finder *finder, const struct elf_file *file,
	const struct module *module, char *detail, size_t detail_bytes);
/* Opens the symbols that are packed in .gnu_debugdata, if they are. */
void separate_open_packed(struct elf_file *ret, const struct elf_file *file);
