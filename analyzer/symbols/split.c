/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/split.h"

#include <dwarf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 32u /* "/proc/self/fd/" and a number */
#define NOWHERE	   "/proc/self/fd/-"

enum { STRINGS, LINE_STRINGS, STRINGS_COUNT };
static const char *const strings_name[STRINGS_COUNT] = {".debug_str", ".debug_line_str"};

/* Appends room for a name to a string section, only in memory. */
static void add_place(struct split *split, unsigned which)
{
	Elf_Data *data = elf_file_data(split->file, strings_name[which]);
	if (!data || !data->d_buf || !data->d_size || data->d_size > UINT32_MAX - NAME_BYTES)
		return;
	char *copy = malloc(data->d_size + NAME_BYTES);
	if (!copy)
		return;
	memcpy(copy, data->d_buf, data->d_size);
	/* The last string of a damaged file may lack its end. */
	copy[data->d_size - 1] = '\0';
	memset(copy + data->d_size, 0, NAME_BYTES);
	memcpy(copy + data->d_size, NOWHERE, sizeof(NOWHERE));
	split->strings[which] = copy;
	split->place[which] = data->d_size;
	/* libelf keeps raw and converted data of a section, and the version of libdw decides which
	 * it reads. */
	Elf_Data *other = elf_file_other_data(split->file, strings_name[which]);
	data->d_buf = copy;
	data->d_size += NAME_BYTES;
	if (other)
		*other = *data;
}

void split_prepare(struct split *split, const struct elf_file *file, const struct finder *finder,
	const char *path)
{
	*split =
		(struct split){.file = file, .finder = finder, .path = path, .package.file.fd = -1};
	if (!elf_file_has_section(file, ".debug_addr"))
		return;
	add_place(split, STRINGS);
	add_place(split, LINE_STRINGS);
}

void split_deinit(struct split *split)
{
	free(split->strings[STRINGS]);
	free(split->strings[LINE_STRINGS]);
	dwp_close(&split->package);
}

/* --- leading libdw to a file --- */

/* Overwrites four bytes of a section's data in memory, if the section contains them. */
static bool store(const struct split *split, const char *section, uint64_t offset, uint32_t value)
{
	Elf_Data *data = elf_file_data(split->file, section);
	if (!data || data->d_size < sizeof(value) || offset > data->d_size - sizeof(value))
		return false;
	memcpy((char *)data->d_buf + offset, &value, sizeof(value));
	return true;
}

static bool store_offset(const struct split *split, const Dwarf_Attribute *name, uint32_t value)
{
	Elf_Data *data = elf_file_data(split->file, ".debug_info");
	uintptr_t at = (uintptr_t)name->valp, start = data ? (uintptr_t)data->d_buf : 0;
	return data && at >= start && store(split, ".debug_info", at - start, value);
}

/* For an indexed string, changes the entry in the table of offsets. */
static bool store_indexed(
	const struct split *split, Dwarf_Die *skeleton, const Dwarf_Attribute *name, uint32_t value)
{
	Dwarf_Attribute attribute;
	Dwarf_Word base;
	uint64_t index = 0;
	Elf_Data *data = elf_file_data(split->file, ".debug_info");
	uintptr_t at = (uintptr_t)name->valp, start = data ? (uintptr_t)data->d_buf : 0;
	if (!data || at < start || at - start >= data->d_size ||
		!dwarf_attr(skeleton, DW_AT_str_offsets_base, &attribute) ||
		dwarf_formudata(&attribute, &base) != 0)
		return false;
	struct bytes in = bytes_of(name->valp, data->d_size - (at - start));
	/* The forms strx1 to strx4 have consecutive numbers; strx is a LEB128. */
	size_t bytes = name->form == DW_FORM_strx ? 0 : name->form - DW_FORM_strx1 + 1;
	if (bytes > bytes_left(&in) || (!bytes && !bytes_uleb(&in, &index)))
		return false;
	memcpy(&index, in.at, bytes);
	return index < UINT32_MAX && base < UINT32_MAX &&
	       store(split, ".debug_str_offsets", base + 4 * index, value);
}

/* Changes a skeleton's name in memory to `path`: writes `path` into the room of add_place and lets
 * the attribute refer to it. */
static bool lead(const struct split *split, Dwarf_Die *skeleton, const Dwarf_Attribute *name,
	const char *path)
{
	unsigned which = name->form == DW_FORM_line_strp ? LINE_STRINGS : STRINGS;
	if (!split->strings[which])
		return false;
	snprintf(split->strings[which] + split->place[which], NAME_BYTES, "%s", path);
	uint32_t value = (uint32_t)split->place[which];
	switch (name->form) {
	case DW_FORM_strp:
	case DW_FORM_line_strp:
		return store_offset(split, name, value);
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
		return store_indexed(split, skeleton, name, value);
	default:
		return false;
	}
}

/* --- finding the file of a unit --- */

static int open_anywhere(const struct finder *finder, const char *path)
{
	int fd = -1;
	for (enum finder_place place = 0; place < FINDER_PLACES && fd < 0; place++)
		fd = finder_open(finder, place, path);
	return fd;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int open_in_debug_dirs(const struct finder *finder, const char *name)
{
	int fd = -1;
	for (size_t i = 0; i < finder->debug_dir_count && fd < 0; i++) {
		/* A name with ".." could lead out of the directory. */
		if (name[0] != '/' && !strstr(name, ".."))
			fd = finder_open_below(finder->debug_dir[i], name);
		if (fd < 0)
			fd = finder_open_below(finder->debug_dir[i], last_part(name));
	}
	return fd;
}

/* The package's file is in the module's directory. */
static void open_package(struct split *split)
{
	char path[PATH_MAX];
	if (split->has_looked)
		return;
	split->has_looked = true;
	int length = snprintf(path, sizeof(path), "%s.dwp", split->path);
	if (length < 0 || (size_t)length >= sizeof(path))
		return;
	int fd = open_anywhere(split->finder, path);
	if (fd < 0)
		fd = open_in_debug_dirs(split->finder, last_part(path));
	if (fd >= 0)
		(void)dwp_take(&split->package, fd);
}

static int open_unit(struct split *split, Dwarf_Die *skeleton, const char *name, uint64_t id)
{
	char path[PATH_MAX];
	Dwarf_Attribute attribute;
	open_package(split);
	int fd = dwp_unit(&split->package, id);
	const char *directory = dwarf_attr(skeleton, DW_AT_comp_dir, &attribute)
					? dwarf_formstring(&attribute)
					: NULL;
	int length = name[0] == '/' || !directory
			     ? snprintf(path, sizeof(path), "%s", name)
			     : snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (fd < 0 && length > 0 && (size_t)length < sizeof(path))
		fd = open_anywhere(split->finder, path);
	/* Then in the module's directory: module and .dwo file may have been moved together. */
	const char *slash = strrchr(split->path, '/');
	if (fd < 0 && slash && name[0] != '/' &&
		(size_t)snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - split->path),
			split->path, name) < sizeof(path))
		fd = open_anywhere(split->finder, path);
	return fd < 0 ? open_in_debug_dirs(split->finder, name) : fd;
}

bool split_find(
	struct split *split, Dwarf_Die *skeleton, Dwarf_Die *ret, char *detail, size_t detail_bytes)
{
	Dwarf_Attribute attribute;
	uint64_t id = 0;
	char path[NAME_BYTES];
	if (!dwarf_attr(skeleton, DW_AT_dwo_name, &attribute) &&
		!dwarf_attr(skeleton, DW_AT_GNU_dwo_name, &attribute))
		return false;
	const char *name = dwarf_formstring(&attribute);
	if (!name || dwarf_cu_info(skeleton->cu, NULL, NULL, NULL, NULL, &id, NULL, NULL) != 0)
		return false;
	snprintf(detail, detail_bytes, "%s", name);
	int fd = open_unit(split, skeleton, name, id);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bool found = fd >= 0 && lead(split, skeleton, &attribute, path) &&
		     dwarf_cu_info(skeleton->cu, NULL, NULL, NULL, ret, NULL, NULL, NULL) == 0 &&
		     ret->addr;
	if (fd >= 0)
		close(fd);
	return found;
}
