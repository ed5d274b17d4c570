/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/elf_file.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEBUG_DIR "/usr/lib/debug"

void elf_file_build_id(const struct elf_file *file, char *ret)
{
	const void *bytes = NULL;
	ssize_t length = dwelf_elf_gnu_build_id(file->elf, &bytes);
	ret[0] = '\0';
	for (ssize_t i = 0; i < length && i < (ssize_t)TRACE_BUILD_ID_MAX; i++)
		snprintf(ret + 2 * i, 3, "%02x", ((const uint8_t *)bytes)[i]);
}

static bool has_build_id(const struct elf_file *file, const char *build_id)
{
	char has[2 * TRACE_BUILD_ID_MAX + 1];
	elf_file_build_id(file, has);
	return strcmp(has, build_id) == 0;
}

/* For a module that was linked without a build-id: the next best proof of identity. */
static bool has_segments(Elf *elf, const struct module *module)
{
	const void *bytes;
	size_t count, matched = 0;
	if (dwelf_elf_gnu_build_id(elf, &bytes) > 0 || elf_getphdrnum(elf, &count) != 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr phdr;
		if (!gelf_getphdr(elf, (int)i, &phdr) || phdr.p_type != PT_LOAD)
			continue;
		if (matched == module->segment_count)
			return false;
		const struct rec_segment *segment = &module->segment[matched++];
		if (segment->vaddr != phdr.p_vaddr || segment->memsz != phdr.p_memsz ||
			segment->offset != phdr.p_offset)
			return false;
	}
	return matched && matched == module->segment_count;
}

/* Whether the file has the module's build-id, or its segments if the module has no build-id. */
static bool is_of(const struct elf_file *file, const struct module *module)
{
	return module->build_id[0] ? has_build_id(file, module->build_id)
				   : has_segments(file->elf, module);
}

void elf_file_take(struct elf_file *file, int fd)
{
	*file = (struct elf_file){.fd = fd};
	if (fd < 0)
		return;
	elf_version(EV_CURRENT);
	/* Not mapped: a file that is cut while it is read must not be a SIGBUS. */
	file->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!file->elf || elf_kind(file->elf) != ELF_K_ELF)
		elf_file_close(file);
}

void elf_file_take_memory(struct elf_file *file, void *memory, size_t bytes)
{
	elf_version(EV_CURRENT);
	*file = (struct elf_file){.fd = -1, .memory = memory};
	file->elf = elf_memory(memory, bytes);
	if (!file->elf || elf_kind(file->elf) != ELF_K_ELF)
		elf_file_close(file);
}

void elf_file_close(struct elf_file *file)
{
	if (file->elf)
		elf_end(file->elf);
	if (file->fd >= 0)
		close(file->fd);
	free(file->memory);
	*file = (struct elf_file){.fd = -1};
}

/* --- files of modules --- */

/* Opens the mapped file itself, which heaptap handed over: another file may have its path by now.
 */
static void open_handed(
	struct elf_file *file, const struct finder_module *handed, const struct module *module)
{
	if (!handed || handed->fd < 0)
		return;
	elf_file_take(file, fcntl(handed->fd, F_DUPFD_CLOEXEC, 0));
	/* The file may have been overwritten since it was mapped. */
	if (file->elf && !is_of(file, module))
		elf_file_close(file);
}

static bool has_inode(const struct elf_file *file, const struct finder_module *handed)
{
	struct stat status;
	return handed && handed->inode && fstat(file->fd, &status) == 0 &&
	       status.st_ino == handed->inode;
}

static enum rec_names_state judge(struct elf_file *file, const struct finder_module *handed,
	enum finder_place place, const struct module *module)
{
	if (!file->elf || !is_of(file, module))
		return REC_NAMES_OTHER_FILE;
	return module->build_id[0] || place == FINDER_SYSROOT || has_inode(file, handed)
		       ? REC_NAMES_WHOLE
		       : REC_NAMES_UNIDENTIFIED;
}

/* The reason that says more, of two. */
static enum rec_names_state worse(enum rec_names_state a, enum rec_names_state b)
{
	return a > b ? a : b;
}

static enum rec_names_state open_named(struct elf_file *file, const struct finder *finder,
	const struct module *module, const char *path)
{
	const struct finder_module *handed = finder_module(finder, module->id);
	enum rec_names_state state = REC_NAMES_NO_FILE;
	for (enum finder_place place = 0; place < FINDER_PLACES; place++) {
		int fd = finder_open(finder, place, path);
		if (fd < 0) {
			if (errno == EACCES || errno == EPERM)
				state = worse(state, REC_NAMES_UNREADABLE);
			continue;
		}
		elf_file_take(file, fd);
		enum rec_names_state found = judge(file, handed, place, module);
		if (found == REC_NAMES_WHOLE)
			return found;
		elf_file_close(file);
		state = worse(state, found);
	}
	return state;
}

enum rec_names_state elf_file_open_module(
	struct elf_file *file, const struct finder *finder, const struct module *module)
{
	static const char deleted[] = " (deleted)";
	char path[PATH_MAX];
	size_t length = strlen(module->path), end = sizeof(deleted) - 1;
	*file = (struct elf_file){.fd = -1};
	open_handed(file, finder_module(finder, module->id), module);
	if (file->elf)
		return REC_NAMES_WHOLE;
	if (module->path[0] != '/' || length >= sizeof(path))
		return REC_NAMES_NO_FILE;
	enum rec_names_state state = open_named(file, finder, module, module->path);
	if (file->elf || length <= end || strcmp(module->path + length - end, deleted) != 0)
		return state;
	/* The kernel appends " (deleted)" also if a file was replaced. Try the path: an identical
	 * copy has the same build-id. */
	memcpy(path, module->path, length - end);
	path[length - end] = '\0';
	return worse(state, open_named(file, finder, module, path));
}

static void take_build(struct elf_file *file, int fd, const char *build_id)
{
	elf_file_take(file, fd);
	if (file->elf && !has_build_id(file, build_id))
		elf_file_close(file);
}

void elf_file_open_path(
	struct elf_file *file, const struct finder *finder, const char *path, const char *build_id)
{
	*file = (struct elf_file){.fd = -1};
	for (enum finder_place place = 0; place < FINDER_PLACES && !file->elf; place++)
		take_build(file, finder_open(finder, place, path), build_id);
}

void elf_file_open_debug(struct elf_file *file, const struct finder *finder, const char *build_id)
{
	char path[PATH_MAX];
	*file = (struct elf_file){.fd = -1};
	if (strlen(build_id) < 3)
		return;
	snprintf(path, sizeof(path), DEBUG_DIR "/.build-id/%.2s/%s.debug", build_id, build_id + 2);
	elf_file_open_path(file, finder, path, build_id);
	for (size_t i = 0; i < finder->debug_dir_count && !file->elf; i++)
		take_build(file, finder_open_below(finder->debug_dir[i], path + sizeof(DEBUG_DIR)),
			build_id);
}

/* --- sections --- */

static bool is_called(const char *has, const char *wanted)
{
	return has &&
	       (!strcmp(has, wanted) || (!strncmp(wanted, ".debug", 6) && !strncmp(has, ".z", 2) &&
						!strcmp(has + 2, wanted + 1)));
}

static Elf_Scn *find_section(const struct elf_file *file, const char *name)
{
	size_t names;
	if (!file->elf || elf_getshdrstrndx(file->elf, &names) != 0)
		return NULL;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(file->elf, scn));) {
		GElf_Shdr shdr;
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type != SHT_NOBITS &&
			is_called(elf_strptr(file->elf, names, shdr.sh_name), name))
			return scn;
	}
	return NULL;
}

bool elf_file_has_section(const struct elf_file *file, const char *name)
{
	return find_section(file, name) != NULL;
}

bool elf_file_is_compressed(const struct elf_file *file, const char *name)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = find_section(file, name);
	return scn && gelf_getshdr(scn, &shdr) && shdr.sh_flags & SHF_COMPRESSED;
}

Elf_Data *elf_file_data(const struct elf_file *file, const char *name)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = find_section(file, name);
	/* Decompress the section in libelf's memory, as libdw would, so that both see the same
	 * data. */
	if (scn && gelf_getshdr(scn, &shdr) && shdr.sh_flags & SHF_COMPRESSED)
		(void)elf_compress(scn, 0, 0);
	return scn ? elf_rawdata(scn, NULL) : NULL;
}

Elf_Data *elf_file_other_data(const struct elf_file *file, const char *name)
{
	Elf_Scn *scn = find_section(file, name);
	return scn ? elf_getdata(scn, NULL) : NULL;
}

struct bytes elf_file_section(const struct elf_file *file, const char *name)
{
	Elf_Data *data = elf_file_data(file, name);
	return data && data->d_buf ? bytes_of(data->d_buf, data->d_size) : (struct bytes){0};
}

struct ht_err *elf_file_code(const struct elf_file *file, struct spans *ret)
{
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(file->elf, scn));) {
		GElf_Shdr shdr;
		if (gelf_getshdr(scn, &shdr) && shdr.sh_flags & SHF_ALLOC &&
			shdr.sh_flags & SHF_EXECINSTR && shdr.sh_size <= UINT64_MAX - shdr.sh_addr)
			HT_TRY(spans_add(ret, shdr.sh_addr, shdr.sh_addr + shdr.sh_size, 0));
	}
	spans_sort(ret);
	return NULL;
}
