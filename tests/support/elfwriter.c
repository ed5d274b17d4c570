/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/elfwriter.h"

#include <check.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE	    4096u
#define NOTE_AT	    0x800u
#define SYMBOLS_AT  PAGE
#define STRINGS_AT  (SYMBOLS_AT + ELFWRITER_SYMBOLS * sizeof(Elf64_Sym))
#define HASH_AT	    (STRINGS_AT + 1024)
#define RELA_AT	    (HASH_AT + 256)
#define PLT_RELA_AT (RELA_AT + ELFWRITER_RELOCS * sizeof(Elf64_Rela))
#define TEXT_AT	    (2 * PAGE)
#define DATA_AT	    (3 * PAGE)
#define GOT_AT	    (DATA_AT + 1024)

static void header_write(struct elfwriter *writer)
{
	*writer->ehdr = (Elf64_Ehdr){.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					     ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = ELFWRITER_PHDRS};
}

static Elf64_Phdr phdr_of(uint32_t type, uint32_t flags, uint64_t at, uint64_t bytes)
{
	return (Elf64_Phdr){.p_type = type,
		.p_flags = flags,
		.p_offset = at,
		.p_vaddr = at,
		.p_paddr = at,
		.p_filesz = bytes,
		.p_memsz = bytes,
		.p_align = type == PT_LOAD ? PAGE : 4};
}

static void note_write(struct elfwriter *writer)
{
	Elf64_Nhdr note = {.n_namesz = sizeof(ELF_NOTE_GNU),
		.n_descsz = ELFWRITER_BUILD_ID_BYTES,
		.n_type = NT_GNU_BUILD_ID};
	uint8_t *at = writer->image + NOTE_AT;
	memcpy(at, &note, sizeof(note));
	memcpy(at + sizeof(note), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU));
	for (uint8_t i = 0; i < ELFWRITER_BUILD_ID_BYTES; i++)
		at[sizeof(note) + sizeof(ELF_NOTE_GNU) + i] = (uint8_t)(0xa0 + i);
}

void elfwriter_init(struct elfwriter *writer)
{
	uint8_t *image = mmap(
		NULL, ELFWRITER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(image, MAP_FAILED);
	*writer = (struct elfwriter){.image = image,
		.ehdr = (void *)image,
		.phdr = (void *)(image + sizeof(Elf64_Ehdr)),
		.symbol = (void *)(image + SYMBOLS_AT),
		.strings = (char *)image + STRINGS_AT,
		.hash = (void *)(image + HASH_AT),
		.rela = (void *)(image + RELA_AT),
		.plt_rela = (void *)(image + PLT_RELA_AT),
		.text = image + TEXT_AT,
		.dynamic = (void *)(image + DATA_AT),
		.got = (void *)(image + GOT_AT),
		.symbol_count = 1,
		.string_bytes = 1};
	header_write(writer);
	writer->phdr[0] = phdr_of(PT_LOAD, PF_R, 0, 2 * PAGE);
	writer->phdr[1] = phdr_of(PT_LOAD, PF_R | PF_X, TEXT_AT, PAGE);
	writer->phdr[2] = phdr_of(PT_LOAD, PF_R | PF_W, DATA_AT, PAGE);
	writer->phdr[3] = phdr_of(PT_DYNAMIC, PF_R | PF_W, DATA_AT, 1024);
	writer->phdr[4] = phdr_of(PT_NOTE, PF_R, NOTE_AT,
		sizeof(Elf64_Nhdr) + sizeof(ELF_NOTE_GNU) + ELFWRITER_BUILD_ID_BYTES);
	writer->phdr[5] = phdr_of(PT_GNU_EH_FRAME, PF_R, NOTE_AT + 256, 64);
	note_write(writer);
	const Elf64_Dyn entries[] = {{DT_SYMTAB, {SYMBOLS_AT}}, {DT_STRTAB, {STRINGS_AT}},
		{DT_STRSZ, {0}}, {DT_SYMENT, {sizeof(Elf64_Sym)}}, {DT_HASH, {HASH_AT}},
		{DT_RELA, {RELA_AT}}, {DT_RELASZ, {0}}, {DT_RELAENT, {sizeof(Elf64_Rela)}},
		{DT_RELACOUNT, {0}}, {DT_JMPREL, {PLT_RELA_AT}}, {DT_PLTRELSZ, {0}},
		{DT_PLTREL, {DT_RELA}}, {DT_NULL, {0}}};
	memcpy(writer->dynamic, entries, sizeof(entries));
}

static uint32_t symbol_add(
	struct elfwriter *writer, const char *name, uint16_t section, uint64_t value)
{
	size_t bytes = strlen(name) + 1;
	ck_assert_uint_lt(writer->symbol_count, ELFWRITER_SYMBOLS);
	ck_assert_uint_le(writer->string_bytes + bytes, HASH_AT - STRINGS_AT);
	memcpy(writer->strings + writer->string_bytes, name, bytes);
	writer->symbol[writer->symbol_count] =
		(Elf64_Sym){.st_name = (Elf64_Word)writer->string_bytes,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = section,
			.st_value = value};
	writer->string_bytes += bytes;
	return writer->symbol_count++;
}

uint32_t elfwriter_function(struct elfwriter *writer, const char *name, size_t text_offset)
{
	return symbol_add(writer, name, 1, TEXT_AT + text_offset);
}

uint32_t elfwriter_undefined(struct elfwriter *writer, const char *name)
{
	return symbol_add(writer, name, SHN_UNDEF, 0);
}

uint64_t *elfwriter_slot(struct elfwriter *writer, uint32_t type, uint32_t symbol, uint64_t value)
{
	bool plt = type == R_X86_64_JUMP_SLOT;
	uint32_t *count = plt ? &writer->plt_rela_count : &writer->rela_count;
	ck_assert_uint_lt(*count, ELFWRITER_RELOCS);
	uint64_t *slot = &writer->got[writer->got_count++];
	*slot = value;
	(plt ? writer->plt_rela : writer->rela)[(*count)++] =
		(Elf64_Rela){.r_offset = (uint64_t)((uint8_t *)slot - writer->image),
			.r_info = ELF64_R_INFO((uint64_t)symbol, type)};
	return slot;
}

Elf64_Dyn *elfwriter_dynamic(struct elfwriter *writer, Elf64_Sxword tag)
{
	Elf64_Dyn *entry = writer->dynamic;
	while (entry->d_tag != tag) {
		ck_assert_int_ne(entry->d_tag, DT_NULL);
		entry++;
	}
	return entry;
}

void elfwriter_protect(struct elfwriter *writer)
{
	elfwriter_dynamic(writer, DT_STRSZ)->d_un.d_val = writer->string_bytes;
	elfwriter_dynamic(writer, DT_RELASZ)->d_un.d_val = writer->rela_count * sizeof(Elf64_Rela);
	elfwriter_dynamic(writer, DT_PLTRELSZ)->d_un.d_val =
		writer->plt_rela_count * sizeof(Elf64_Rela);
	/* One bucket, one chain through all symbols. */
	writer->hash[0] = 1;
	writer->hash[1] = writer->symbol_count;
	writer->hash[2] = writer->symbol_count > 1 ? 1 : 0;
	for (uint32_t i = 0; i < writer->symbol_count; i++)
		writer->hash[3 + i] = i > 0 && i + 1 < writer->symbol_count ? i + 1 : 0;
	mprotect(writer->image, 2 * PAGE, PROT_READ);
	mprotect(writer->text, PAGE, PROT_READ | PROT_EXEC);
}

void elfwriter_open(struct elfwriter *writer)
{
	mprotect(writer->image, ELFWRITER_BYTES, PROT_READ | PROT_WRITE);
	mprotect(writer->text, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
}

void elfwriter_deinit(struct elfwriter *writer)
{
	munmap(writer->image, ELFWRITER_BYTES);
}
