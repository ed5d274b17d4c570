/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the file of a module, or its separate debug file, and only the right one: by build-id. The
 * paths come from a trace and the files from whoever could write there, so that anything but a
 * regular file is passed over, and nothing here blocks.
 */
#pragma once

#include <libelf.h>

#include "analyzer/model/modules.h"
#include "analyzer/symbols/finder.h"
#include "analyzer/symbols/spans.h"
#include "format/bytes.h"

/* Zero-initialised with fd -1: not open. */
struct elf_file {
	int fd;
	Elf *elf;     /* NULL: there is no such file */
	void *memory; /* where it is none on disk */
};

/* Takes over `fd`; not open when that is no ELF file. */
void elf_file_take(struct elf_file *file, int fd);
/* Takes over `memory`, from malloc. */
void elf_file_take_memory(struct elf_file *file, void *memory, size_t bytes);
/* Opens the file `module` was loaded from, and only that: handed over, or by its path with the same
 * build-id; without a build-id the very file that was mapped, or the one in --sysroot with the same
 * segments. Else says why not. */
enum rec_names_state elf_file_open_module(
	struct elf_file *file, const struct finder *finder, const struct module *module);
/* Opens the debug file for a build-id in lower-case hex, in .build-id of /usr/lib/debug and of
 * --debug-dir. */
void elf_file_open_debug(struct elf_file *file, const struct finder *finder, const char *build_id);
/* Opens `path`, wherever it is found with this build-id. */
void elf_file_open_path(
	struct elf_file *file, const struct finder *finder, const char *path, const char *build_id);
void elf_file_close(struct elf_file *file);
/* In lower-case hex; "" when it has none. `ret` has 2 * TRACE_BUILD_ID_MAX + 1 bytes. */
void elf_file_build_id(const struct elf_file *file, char *ret);
/* Whether it has a section of this name that takes up bytes in the file; ".debug_x" stands for
 * ".zdebug_x", too. */
bool elf_file_has_section(const struct elf_file *file, const char *name);
/* Whether libelf has left such a section compressed: by a method that it does not know. */
bool elf_file_is_compressed(const struct elf_file *file, const char *name);
/* The bytes of such a section as they stand in the file, or as libelf has decompressed them; none
 * where there is no such section. */
struct bytes elf_file_section(const struct elf_file *file, const char *name);
/* The same as libelf keeps it, raw and converted; NULL: there is none. */
Elf_Data *elf_file_data(const struct elf_file *file, const char *name);
Elf_Data *elf_file_other_data(const struct elf_file *file, const char *name);
/* Adds the sections that hold code. */
HT_MUST_CHECK
struct ht_err *elf_file_code(const struct elf_file *file, struct spans *ret);
