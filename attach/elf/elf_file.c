/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/elf_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/helper/pulse.h"
#include "format/arch.h"

#define SECTIONS_MAX 65535u
#define TABLE_MAX    (512ul << 20) /* a large Rust program has 100 MB of symbol names */
#define READ_BYTES   (1u << 20)
#define NOTES_BYTES  1024u

/* Reads from `offset` on. Returns the bytes read: fewer at the end of the file. */
static size_t read_at(int fd, void *data, size_t bytes, uint64_t offset)
{
	size_t done = 0;
	while (done < bytes) {
		size_t want = bytes - done < READ_BYTES ? bytes - done : READ_BYTES;
		pulse_enter();
		ssize_t got = pread(fd, (uint8_t *)data + done, want, (off_t)(offset + done));
		pulse_leave();
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

static bool header_read(int fd, uint64_t bytes, Elf64_Ehdr *ret)
{
	return read_at(fd, ret, sizeof(*ret), 0) == sizeof(*ret) &&
	       !memcmp(ret->e_ident, ELFMAG, SELFMAG) && ret->e_ident[EI_CLASS] == ELFCLASS64 &&
	       ret->e_machine == ARCH_ELF_MACHINE && ret->e_shentsize == sizeof(Elf64_Shdr) &&
	       ret->e_shoff < bytes;
}

/* If the header has no room for the number of sections, sh_size of the first section has it. */
static size_t section_count(int fd, const Elf64_Ehdr *ehdr)
{
	Elf64_Shdr first;
	if (ehdr->e_shnum)
		return ehdr->e_shnum;
	if (read_at(fd, &first, sizeof(first), ehdr->e_shoff) != sizeof(first))
		return 0;
	return first.sh_size < SECTIONS_MAX ? first.sh_size : SECTIONS_MAX;
}

static struct ht_err *no_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "no memory for the symbols of a file");
}

/* Takes `bytes` off the limits; false: not enough is left. */
static bool spend(struct elf_file *file, uint64_t bytes, uint64_t most)
{
	if (bytes > most || bytes > file->left || !budget_bytes(file->budget, bytes)) {
		file->partial = true;
		return false;
	}
	file->left -= bytes;
	return true;
}

static struct ht_err *sections_read(int fd, struct budget *budget, struct elf_file *ret)
{
	struct stat stat;
	Elf64_Ehdr ehdr;
	*ret = (struct elf_file){.fd = fd, .left = ELF_FILE_READ_MAX, .budget = budget};
	pulse_enter();
	int failed = fstat(fd, &stat);
	pulse_leave();
	if (failed || !header_read(fd, (uint64_t)stat.st_size, &ehdr))
		return NULL;
	ret->bytes = (uint64_t)stat.st_size;
	size_t count = section_count(fd, &ehdr);
	if (!spend(ret, count * sizeof(*ret->section), UINT64_MAX))
		return NULL;
	ret->section = calloc(count + 1, sizeof(*ret->section));
	if (!ret->section)
		return no_memory();
	ret->section_count =
		read_at(fd, ret->section, count * sizeof(*ret->section), ehdr.e_shoff) /
		sizeof(*ret->section);
	size_t names = ehdr.e_shstrndx != SHN_XINDEX ? ehdr.e_shstrndx
		       : ret->section_count	     ? ret->section[0].sh_link
						     : 0;
	if (names >= ret->section_count)
		return NULL;
	struct elf_table table;
	HT_TRY(elf_file_read(ret, &ret->section[names], &table));
	ret->names = (char *)table.data;
	ret->name_bytes = table.bytes;
	return NULL;
}

const uint8_t *elf_build_id(const uint8_t *data, size_t bytes, size_t align, size_t *ret_bytes)
{
	Elf64_Nhdr note;
	for (size_t at = 0; bytes - at >= sizeof(note);) {
		memcpy(&note, data + at, sizeof(note));
		at += sizeof(note);
		uint64_t name = ht_align_up((uint64_t)note.n_namesz, align);
		uint64_t desc = ht_align_up((uint64_t)note.n_descsz, align);
		if (name > bytes - at || note.n_descsz > bytes - at - name)
			return NULL;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
			!memcmp(data + at, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU))) {
			*ret_bytes = note.n_descsz;
			return data + at + name;
		}
		if (desc > bytes - at - name)
			return NULL;
		at += name + desc;
	}
	return NULL;
}

static bool has_build_id(const struct elf_file *file, const uint8_t *id, size_t bytes)
{
	uint8_t data[NOTES_BYTES];
	const Elf64_Shdr *section = NULL;
	while ((section = elf_file_typed(file, SHT_NOTE, section ? section + 1 : NULL))) {
		size_t want = section->sh_size < sizeof(data) ? section->sh_size : sizeof(data);
		size_t got = read_at(file->fd, data, want, section->sh_offset), found_bytes;
		const uint8_t *found = elf_build_id(data, got, 4, &found_bytes);
		if (found)
			return found_bytes == bytes && !memcmp(found, id, bytes);
	}
	return bytes == 0;
}

struct ht_err *elf_file_open(int fd, const uint8_t *build_id, size_t build_id_bytes,
	struct budget *budget, struct elf_file *ret)
{
	struct ht_err *err = sections_read(fd, budget, ret);
	if (!err && has_build_id(ret, build_id, build_id_bytes)) {
		ret->build_id = build_id;
		ret->build_id_bytes = build_id_bytes;
		return NULL;
	}
	elf_file_close(ret);
	return err;
}

void elf_file_close(struct elf_file *file)
{
	free(file->section);
	free(file->names);
	*file = (struct elf_file){.fd = -1};
}

const Elf64_Shdr *elf_file_typed(const struct elf_file *file, uint32_t type, const Elf64_Shdr *from)
{
	for (size_t i = from ? (size_t)(from - file->section) : 0; i < file->section_count; i++)
		if (file->section[i].sh_type == type)
			return &file->section[i];
	return NULL;
}

const Elf64_Shdr *elf_file_named(const struct elf_file *file, const char *name)
{
	for (size_t i = 0; i < file->section_count; i++)
		if (file->section[i].sh_name < file->name_bytes &&
			!strcmp(file->names + file->section[i].sh_name, name))
			return &file->section[i];
	return NULL;
}

const Elf64_Shdr *elf_file_linked(const struct elf_file *file, const Elf64_Shdr *section)
{
	return section->sh_link < file->section_count ? &file->section[section->sh_link] : NULL;
}

#define LARGE_PAGE_BYTES (2ul << 20)

/* A third of the time for the symbols of a large program is the first touch of each page. */
static void ask_for_large_pages(uint8_t *data, size_t bytes)
{
	size_t before = -(uintptr_t)data & (LARGE_PAGE_BYTES - 1);
	size_t whole = bytes > before ? (bytes - before) & ~(LARGE_PAGE_BYTES - 1) : 0;
	if (whole > 0)
		(void)madvise(data + before, whole, MADV_HUGEPAGE);
}

struct ht_err *elf_file_read(
	struct elf_file *file, const Elf64_Shdr *section, struct elf_table *ret)
{
	*ret = (struct elf_table){0};
	uint64_t offset = section->sh_offset, bytes = section->sh_size;
	if (section->sh_type == SHT_NOBITS || offset >= file->bytes)
		return NULL;
	if (bytes > file->bytes - offset)
		bytes = file->bytes - offset;
	if (!spend(file, bytes, TABLE_MAX))
		return NULL;
	ret->data = malloc(bytes + 1);
	if (!ret->data)
		return no_memory();
	ask_for_large_pages(ret->data, bytes);
	ret->bytes = read_at(file->fd, ret->data, bytes, offset);
	ret->data[ret->bytes] = 0;
	return NULL;
}

void elf_table_deinit(struct elf_table *table)
{
	free(table->data);
	*table = (struct elf_table){0};
}

size_t elf_file_bytes(struct elf_file *file, uint64_t offset, void *ret, size_t bytes)
{
	if (offset >= file->bytes || !spend(file, bytes, bytes))
		return 0;
	return read_at(file->fd, ret, bytes, offset);
}
