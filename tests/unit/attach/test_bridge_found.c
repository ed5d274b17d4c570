/* SPDX-License-Identifier: Apache-2.0
 *
 * A bridge runs a function's first instructions elsewhere: tested with all functions of the
 * allocators that Debian has.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HEAPTAP_ZYDIS
#include <Zydis/Zydis.h>
#endif

#include "attach/allocators/family.h"
#include "attach/inject/bridge.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"

#ifdef HEAPTAP_ZYDIS

struct library {
	const uint8_t *file;
	const Elf64_Ehdr *head;
	unsigned hooked, refused;
};

static const uint8_t *file_at(const struct library *l, uint64_t vaddr, uint64_t *ret_left)
{
	const Elf64_Phdr *segment = (const void *)(l->file + l->head->e_phoff);
	for (size_t i = 0; i < l->head->e_phnum; i++) {
		if (segment[i].p_type != PT_LOAD || vaddr < segment[i].p_vaddr ||
			vaddr - segment[i].p_vaddr >= segment[i].p_filesz)
			continue;
		*ret_left = segment[i].p_filesz - (vaddr - segment[i].p_vaddr);
		return l->file + segment[i].p_offset + (vaddr - segment[i].p_vaddr);
	}
	return NULL;
}

/* Disassembles an instruction. The text names the absolute address that it refers to, so it is the
 * same wherever the instruction stands. */
static void format(const uint8_t *code, raddr_t at, char ret[128])
{
	ZydisDisassembledInstruction i;
	ck_assert(
		ZYAN_SUCCESS(ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64, at, code, 16, &i)));
	snprintf(ret, 128, "%s", i.text);
}

static void check_same(
	const struct bridge *bridge, const uint8_t *code, raddr_t at, const char *name)
{
	struct abi_bridge made;
	char before[128], after[128];
	raddr_t next;
	ck_assert(bridge_make(bridge, at, &made));
	if (bridge->kind == BRIDGE_JUMP) {
		memcpy(&next, made.code + 6, sizeof(next));
		ck_assert_uint_eq(next, bridge->operand);
		return;
	}
	format(code, bridge->entry, before);
	format(made.code, at + offsetof(struct abi_bridge, code), after);
	ck_assert_msg(!strcmp(before, after), "%s: %s became %s", name, before, after);
	memcpy(&next, made.code + bridge->bytes + 6, sizeof(next));
	ck_assert_uint_eq(next, bridge->kind == BRIDGE_RETURN ? 0 : bridge->entry + bridge->bytes);
	if (strncmp(before, "push", 4) == 0) {
		ck_assert_uint_eq(made.step[0].from, bridge->bytes);
		ck_assert_uint_eq(made.step[0].words, 1);
	}
}

static void take_function(struct library *l, const Elf64_Sym *symbol, const char *name)
{
	struct family_member member;
	struct bridge bridge;
	uint64_t left;
	raddr_t bias = 0x555500000000ull;
	if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
		!family_find(name, &member) || member.role != FAMILY_HOOKED)
		return;
	const uint8_t *word = file_at(l, symbol->st_value & ~7ull, &left);
	ck_assert_ptr_nonnull(word);
	const char *why =
		bridge_read(word, left, bias + symbol->st_value, symbol->st_size, &bridge);
	if (why) {
		printf("    %s: %s\n", name, why);
		l->refused++;
		return;
	}
	l->hooked++;
	const uint8_t *code = word + symbol->st_value % 8;
	check_same(&bridge, code, bridge.entry + 0x70000000, name);
	check_same(&bridge, code, (bridge.entry & ~63ull) - 0x60000000, name);
}

static void take_symbols(struct library *l)
{
	const Elf64_Shdr *section = (const void *)(l->file + l->head->e_shoff);
	for (size_t i = 0; i < l->head->e_shnum; i++) {
		if (section[i].sh_type != SHT_SYMTAB && section[i].sh_type != SHT_DYNSYM)
			continue;
		const Elf64_Sym *symbol = (const void *)(l->file + section[i].sh_offset);
		const char *names = (const char *)l->file + section[section[i].sh_link].sh_offset;
		for (size_t n = 0; n < section[i].sh_size / sizeof(*symbol); n++)
			take_function(l, &symbol[n], names + symbol[n].st_name);
	}
}

/* Returns false if the library is not installed. */
static bool check_library(const char *path, unsigned refused)
{
	struct stat stat;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		printf("skipped: %s\n", path);
		return false;
	}
	ck_assert_int_eq(fstat(fd, &stat), 0);
	struct library l = {
		.file = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0)};
	ck_assert_ptr_ne(l.file, MAP_FAILED);
	close(fd);
	l.head = (const void *)l.file;
	take_symbols(&l);
	printf("%s: %u to be hooked, %u not\n", path, l.hooked, l.refused);
	ck_assert_uint_gt(l.hooked, 3);
	ck_assert_uint_le(l.refused, refused);
	munmap((void *)l.file, (size_t)stat.st_size);
	return true;
}

#define LIB "/usr/lib/x86_64-linux-gnu/"

HT_TEST(allocators)
{
	check_library(LIB "libjemalloc.so.2", 0);
	check_library(LIB "libmimalloc.so.2.0", 0);
	check_library(LIB "libtcmalloc_minimal.so.4", 0);
	check_library(LIB "libc.so.6", 0);
	check_library("/lib/ld-musl-x86_64.so.1", 1);
}

/* Allocators of Debian's static archives, in the targets of other tests; skipped if not built. */
HT_TEST(allocators_linked_in)
{
	check_library(run_built("tests/targets/extended-direct"), 0);
	check_library(run_built("tests/targets/linked-static"), 0);
	check_library(run_built("tests/targets/rust-jemalloc"), 0);
}

#else

HT_TEST(is_off)
{
	ck_assert(!bridge_is_supported());
}

#endif

HT_SUITE("attach/bridge_found")
