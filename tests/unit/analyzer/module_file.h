/* SPDX-License-Identifier: Apache-2.0
 *
 * A file as the module of a trace, and names for addresses in it.
 */
#pragma once

#include <gelf.h>
#include <stdio.h>

#include "analyzer/symbols/resolve.h"
#include "tests/unit/analyzer/module_here.h"

#define MODULE_FILE_BIAS 0x7f0000000000u

/* Resolves addresses of one file, one at a time. module_file_read begins; after module_file_frames,
 * module_file_end releases the result. */
struct module_file {
	struct module_here here;
	struct resolve_files files;
	struct tracebuild trace;
	struct model model;
	struct symbols symbols;
};

/* Prepares the file as a module at MODULE_FILE_BIAS, with its build-id if it has one. */
static inline void module_file_read(struct module_file *file, const char *path)
{
	struct module_here *here = &file->here;
	*file = (struct module_file){.files.sysroot = ""};
	snprintf(here->path, sizeof(here->path), "%s", path);
	here->bias = here->lo = MODULE_FILE_BIAS;
	here->hi = MODULE_FILE_BIAS + (1u << 30);
	elf_version(EV_CURRENT);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	const void *bytes;
	ssize_t length = dwelf_elf_gnu_build_id(elf, &bytes);
	if (length > 0)
		memcpy(here->build_id, bytes, (size_t)length);
	here->build_id_length = length > 0 ? (size_t)length : 0;
	elf_end(elf);
	close(fd);
}

/* Returns value and size of a function in the file's symbol table. */
static inline GElf_Sym module_file_symbol(const char *path, const char *name)
{
	GElf_Sym found = {0};
	elf_version(EV_CURRENT);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		GElf_Sym sym;
		ck_assert_ptr_nonnull(gelf_getshdr(scn, &shdr));
		if (shdr.sh_type != SHT_SYMTAB && shdr.sh_type != SHT_DYNSYM)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		for (int i = 0; gelf_getsym(data, i, &sym); i++)
			if (!strcmp(elf_strptr(elf, shdr.sh_link, sym.st_name), name) &&
				sym.st_value)
				found = sym;
	}
	elf_end(elf);
	close(fd);
	ck_assert_msg(found.st_value, "%s has no %s", path, name);
	return found;
}

static inline struct ht_err *module_file_take(
	void *context, struct place place, const struct rec_frame *frame, uint64_t count)
{
	struct module_file *file = context;
	return symbols_add(&file->symbols, &file->model.strings, place, frame, count);
}

/* Returns the frames of the instruction at `vaddr`; NULL: it has no name. */
static inline const struct symbol_frame *module_file_frames(
	struct module_file *file, uint64_t vaddr, uint32_t *ret_count)
{
	const struct model_observer observer = {0};
	struct place place;
	tracebuild_init(&file->trace);
	tracebuild_start(&file->trace, 1, 0, 0);
	module_here_put(&file->here, &file->trace);
	uint32_t id = tracebuild_node(&file->trace, 0, MODULE_FILE_BIAS + vaddr + 1);
	ck_no_err(model_load(&file->model, tracebuild_finish(&file->trace), "trace", &observer));
	ck_no_err(
		resolve_places(&file->model, &file->symbols, &file->files, module_file_take, file));
	ck_no_err(place_of_node(&file->model.modules, nodes_get(&file->model.nodes, id), &place));
	return symbols_find(&file->symbols, place, ret_count);
}

static inline void module_file_end(struct module_file *file)
{
	symbols_deinit(&file->symbols);
	model_deinit(&file->model);
	tracebuild_deinit(&file->trace);
	file->symbols = (struct symbols){0};
	file->model = (struct model){0};
}
