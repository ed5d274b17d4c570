/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/elf_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEBUG_DIR "/usr/lib/debug"

static bool has_build_id(Elf *elf, const char *build_id)
{
	const void *bytes = NULL;
	ssize_t length = dwelf_elf_gnu_build_id(elf, &bytes);
	if (length <= 0 || (size_t)length * 2 != strlen(build_id))
		return false;
	for (ssize_t i = 0; i < length; i++) {
		char hex[3];
		snprintf(hex, sizeof(hex), "%02x", ((const uint8_t *)bytes)[i]);
		if (memcmp(hex, build_id + 2 * i, 2) != 0)
			return false;
	}
	return true;
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

/* Opens `path` as an ELF file of this machine's kind, if it is one. */
static void open_elf(struct elf_file *file, const char *path)
{
	*file = (struct elf_file){.fd = -1};
	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	if (file->fd < 0)
		return;
	if (fstat(file->fd, &status) == 0 && S_ISREG(status.st_mode)) {
		elf_version(EV_CURRENT);
		/* Not mapped: a file that is cut while it is read must not be a SIGBUS. */
		file->elf = elf_begin(file->fd, ELF_C_READ, NULL);
	}
	if (!file->elf || elf_kind(file->elf) != ELF_K_ELF)
		elf_file_close(file);
}

void elf_file_close(struct elf_file *file)
{
	if (file->elf)
		elf_end(file->elf);
	if (file->fd >= 0)
		close(file->fd);
	*file = (struct elf_file){.fd = -1};
}

void elf_file_open_path(struct elf_file *file, const char *path, const char *build_id)
{
	open_elf(file, path);
	if (file->elf && !has_build_id(file->elf, build_id))
		elf_file_close(file);
}

void elf_file_open_module(struct elf_file *file, const char *sysroot, const struct module *module)
{
	char path[PATH_MAX];
	*file = (struct elf_file){.fd = -1};
	int length = snprintf(path, sizeof(path), "%s%s", sysroot, module->path);
	if (module->path[0] != '/' || length < 0 || (size_t)length >= sizeof(path))
		return;
	if (module->build_id[0]) {
		elf_file_open_path(file, path, module->build_id);
		return;
	}
	open_elf(file, path);
	if (file->elf && !has_segments(file->elf, module))
		elf_file_close(file);
}

void elf_file_open_debug(struct elf_file *file, const char *sysroot, const char *build_id)
{
	char path[PATH_MAX];
	*file = (struct elf_file){.fd = -1};
	if (strlen(build_id) < 3)
		return;
	int length = snprintf(path, sizeof(path), "%s" DEBUG_DIR "/.build-id/%.2s/%s.debug",
		sysroot, build_id, build_id + 2);
	if (length > 0 && (size_t)length < sizeof(path))
		elf_file_open_path(file, path, build_id);
}

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

struct bytes elf_file_section(const struct elf_file *file, const char *name)
{
	Elf_Scn *scn = find_section(file, name);
	Elf_Data *data = scn ? elf_rawdata(scn, NULL) : NULL;
	return data && data->d_buf ? bytes_of(data->d_buf, data->d_size) : (struct bytes){0};
}

struct ht_err *elf_file_code(const struct elf_file *file, struct spans *ret)
{
	struct ht_err *err = NULL;
	for (Elf_Scn *scn = NULL; !err && (scn = elf_nextscn(file->elf, scn));) {
		GElf_Shdr shdr;
		if (gelf_getshdr(scn, &shdr) && shdr.sh_flags & SHF_ALLOC &&
			shdr.sh_flags & SHF_EXECINSTR && shdr.sh_size <= UINT64_MAX - shdr.sh_addr)
			err = spans_add(ret, shdr.sh_addr, shdr.sh_addr + shdr.sh_size, 0);
	}
	spans_sort(ret);
	return err;
}
