/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the file of a module, or its separate debug file, if the build-id matches. Paths from a
 * trace and the files there are hostile: only regular files are opened, and no function blocks.
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
	Elf *elf;     /* NULL: not open */
	void *memory; /* the file's bytes, if it is only in memory; owned */
};

/* Takes ownership of `fd`; `file` is not open if that is no ELF file. */
void elf_file_take(struct elf_file *file, int fd);
/* Takes ownership of `memory`, from malloc. */
void elf_file_take_memory(struct elf_file *file, void *memory, size_t bytes);
/* Opens the file that `module` was loaded from, and no other: the file that heaptap handed over, or
 * a file at the module's path with the same build-id. A module without a build-id needs the very
 * file that was mapped (same inode), or a file in --sysroot with the same segments. Returns
 * REC_NAMES_WHOLE; or, if no file is open, the reason. */
enum rec_names_state elf_file_open_module(
	struct elf_file *file, const struct finder *finder, const struct module *module);
/* Opens the debug file for a build-id in lower-case hex, in .build-id of /usr/lib/debug and of
 * --debug-dir. `file` is not open if there is none. */
void elf_file_open_debug(struct elf_file *file, const struct finder *finder, const char *build_id);
/* Opens a file at `path`, in the first place (enum finder_place) where it has this build-id. `file`
 * is not open if there is none. */
void elf_file_open_path(
	struct elf_file *file, const struct finder *finder, const char *path, const char *build_id);
void elf_file_close(struct elf_file *file);
/* The build-id in lower-case hex; "" if the file has none. `ret` has 2 * TRACE_BUILD_ID_MAX + 1
 * bytes. */
void elf_file_build_id(const struct elf_file *file, char *ret);
/* Whether the file has a section of this name with contents; ".debug_x" also finds ".zdebug_x". */
bool elf_file_has_section(const struct elf_file *file, const char *name);
/* Whether the section is still compressed because libelf does not know the method. */
bool elf_file_is_compressed(const struct elf_file *file, const char *name);
/* The bytes of a section, decompressed if libelf can; empty if the section is missing. */
struct bytes elf_file_section(const struct elf_file *file, const char *name);
/* libelf's raw and libelf's converted data of a section; NULL: the section is missing. */
Elf_Data *elf_file_data(const struct elf_file *file, const char *name);
Elf_Data *elf_file_other_data(const struct elf_file *file, const char *name);
/* Adds the address ranges of sections with code to `ret`, and sorts it. */
HT_MUST_CHECK
struct ht_err *elf_file_code(const struct elf_file *file, struct spans *ret);
