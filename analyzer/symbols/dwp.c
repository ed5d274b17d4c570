/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/dwp.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/arch.h"

/* bytes copied at most: each unit is copied together with all strings */
#define COPIED_MAX (512ull << 20)

/* The numbers of sections in the index, and their names in a .dwo file. */
static const struct kind {
	const char *name;
	uint32_t number, number_5; /* 0: not in this version */
} kind[] = {
	{".debug_info.dwo", 1, 1},
	{".debug_abbrev.dwo", 3, 3},
	{".debug_line.dwo", 4, 4},
	{".debug_str_offsets.dwo", 6, 6},
	{".debug_rnglists.dwo", 0, 8},
	{".debug_str.dwo", 0, 0},
};

enum { KINDS = HT_ARRAY_SIZE(kind) };

static uint64_t at_u32(struct bytes table, uint64_t index)
{
	uint32_t value = 0;
	if (index < bytes_left(&table) / sizeof(value))
		memcpy(&value, table.at + index * sizeof(value), sizeof(value));
	return value;
}

static bool take_table(struct bytes *in, uint64_t count, size_t bytes, struct bytes *ret)
{
	const uint8_t *at;
	if (count > bytes_left(in) / bytes || !bytes_take(in, (size_t)count * bytes, &at))
		return false;
	*ret = bytes_of(at, (size_t)count * bytes);
	return true;
}

static bool read_index(struct dwp *dwp)
{
	struct bytes in = elf_file_section(&dwp->file, ".debug_cu_index");
	uint32_t version;
	if (!bytes_u32(&in, &version) || !bytes_u32(&in, &dwp->section_count) ||
		!bytes_u32(&in, &dwp->unit_count) || !bytes_u32(&in, &dwp->slot_count))
		return false;
	/* In DWARF 5 the version has two bytes, followed by two bytes of padding. */
	dwp->is_5 = (version & 0xffff) == 5;
	if ((version != 2 && !dwp->is_5) || dwp->section_count > DWP_SECTIONS_MAX ||
		(dwp->slot_count & (dwp->slot_count - 1)) != 0)
		return false;
	uint64_t cells = (uint64_t)dwp->section_count * dwp->unit_count;
	return take_table(&in, dwp->slot_count, sizeof(uint64_t), &dwp->ids) &&
	       take_table(&in, dwp->slot_count, sizeof(uint32_t), &dwp->rows) &&
	       take_table(&in, dwp->section_count, sizeof(uint32_t), &dwp->kinds) &&
	       take_table(&in, cells, sizeof(uint32_t), &dwp->offsets) &&
	       take_table(&in, cells, sizeof(uint32_t), &dwp->sizes);
}

bool dwp_take(struct dwp *dwp, int fd)
{
	*dwp = (struct dwp){0};
	elf_file_take(&dwp->file, fd);
	if (dwp->file.elf && read_index(dwp))
		return true;
	dwp_close(dwp);
	return false;
}

void dwp_close(struct dwp *dwp)
{
	elf_file_close(&dwp->file);
}

/* Looks an id up in the index: a hash table with double hashing, whose second hash is odd. */
static uint64_t find_row(const struct dwp *dwp, uint64_t id)
{
	uint64_t mask = dwp->slot_count - 1, at = id & mask, step = (id >> 32 & mask) | 1;
	for (uint32_t i = 0; i < dwp->slot_count; i++, at = (at + step) & mask) {
		uint64_t has;
		memcpy(&has, dwp->ids.at + at * sizeof(has), sizeof(has));
		uint64_t row = at_u32(dwp->rows, at);
		if (!row)
			break;
		if (has == id && row <= dwp->unit_count)
			return row;
	}
	return 0;
}

static struct bytes part_of(const struct dwp *dwp, const struct kind *of, uint64_t row)
{
	struct bytes whole = elf_file_section(&dwp->file, of->name);
	uint32_t number = dwp->is_5 ? of->number_5 : of->number;
	const uint8_t *at;
	if (!strcmp(of->name, ".debug_str.dwo"))
		return whole;
	for (uint32_t i = 0; number && i < dwp->section_count; i++) {
		uint64_t cell = (row - 1) * dwp->section_count + i;
		uint64_t offset = at_u32(dwp->offsets, cell), size = at_u32(dwp->sizes, cell);
		if (at_u32(dwp->kinds, i) != number)
			continue;
		if (offset > bytes_left(&whole) || size > bytes_left(&whole) - offset ||
			!bytes_take(&whole, (size_t)offset, &at))
			break;
		return bytes_of(whole.at, (size_t)size);
	}
	return (struct bytes){0};
}

static struct ht_err *put_file(struct bytes_out *out, const struct bytes part[KINDS])
{
	Elf64_Shdr section[KINDS + 2] = {0};
	Elf64_Ehdr header = {.e_type = ET_REL,
		.e_machine = ARCH_ELF_MACHINE,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(header),
		.e_shentsize = sizeof(section[0]),
		.e_shnum = KINDS + 2,
		.e_shstrndx = KINDS + 1};
	struct bytes_out names = {0};
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	struct ht_err *err = bytes_out_put(out, &header, sizeof(header));
	HT_THEN(err, bytes_out_u8(&names, 0));
	for (unsigned i = 0; i <= KINDS && !err; i++) {
		Elf64_Shdr *to = &section[i + 1];
		const char *name = i < KINDS ? kind[i].name : ".shstrtab";
		to->sh_name = (uint32_t)names.length;
		err = bytes_out_put(&names, name, strlen(name) + 1);
		struct bytes data = i < KINDS ? part[i] : bytes_of(names.data, names.length);
		*to = (Elf64_Shdr){.sh_name = to->sh_name,
			.sh_type = i < KINDS ? SHT_PROGBITS : SHT_STRTAB,
			.sh_offset = out->length,
			.sh_size = bytes_left(&data),
			.sh_addralign = 1};
		if (!err && bytes_left(&data))
			err = bytes_out_put(out, data.at, bytes_left(&data));
	}
	header.e_shoff = out->length;
	HT_THEN(err, bytes_out_put(out, section, sizeof(section)));
	if (!err)
		memcpy(out->data, &header, sizeof(header));
	bytes_out_deinit(&names);
	return err;
}

int dwp_unit(struct dwp *dwp, uint64_t id)
{
	struct bytes part[KINDS];
	struct bytes_out out = {0};
	uint64_t row = dwp->file.elf && dwp->slot_count ? find_row(dwp, id) : 0;
	if (!row)
		return -1;
	for (unsigned i = 0; i < KINDS; i++) {
		part[i] = part_of(dwp, &kind[i], row);
		dwp->copied_bytes += bytes_left(&part[i]);
	}
	struct ht_err *err = dwp->copied_bytes > COPIED_MAX ? NULL : put_file(&out, part);
	int fd = -1;
	if (!err && out.length)
		fd = memfd_create("dwo", MFD_CLOEXEC);
	/* A memfd takes the whole write, unless memory is out. */
	if (fd >= 0 && write(fd, out.data, out.length) != (ssize_t)out.length) {
		close(fd);
		fd = -1;
	}
	ht_err_free(err);
	bytes_out_deinit(&out);
	return fd;
}
