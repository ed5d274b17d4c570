/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the file of a module, or its separate debug file, and only the right one: by build-id. The
 * paths come from a trace and the files from whoever could write there, so that anything but a
 * regular file is passed over, and nothing here blocks.
 */
#pragma once

#include <libelf.h>

#include "analyzer/model/modules.h"
#include "analyzer/symbols/spans.h"
#include "format/bytes.h"

/* Zero-initialised with fd -1: not open. */
struct elf_file {
	int fd;
	Elf *elf; /* NULL: there is no such file */
};

/* Opens the file `module` was loaded from, below `sysroot` ("" for none). */
void elf_file_open_module(struct elf_file *file, const char *sysroot, const struct module *module);
/* Opens the debug file for a build-id in lower-case hex, in /usr/lib/debug below `sysroot`. */
void elf_file_open_debug(struct elf_file *file, const char *sysroot, const char *build_id);
/* Opens `path` if it has this build-id. */
void elf_file_open_path(struct elf_file *file, const char *path, const char *build_id);
void elf_file_close(struct elf_file *file);
/* Whether it has a section of this name that takes up bytes in the file; ".debug_x" stands for
 * ".zdebug_x", too. */
bool elf_file_has_section(const struct elf_file *file, const char *name);
/* The bytes of such a section as they stand in the file, or as libelf has decompressed them; none
 * where there is no such section. */
struct bytes elf_file_section(const struct elf_file *file, const char *name);
/* Adds the sections that hold code. */
HT_MUST_CHECK
struct ht_err *elf_file_code(const struct elf_file *file, struct spans *ret);
