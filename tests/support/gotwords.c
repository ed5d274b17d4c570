/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/gotwords.h"

#include <check.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct elf_file {
	uint8_t *data;
	size_t bytes;
	const Elf64_Phdr *phdr;
	size_t phdr_count;
};

static const char *const allocator_names[] = {"malloc", "calloc", "realloc", "free",
	"posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc", "reallocarray", "cfree",
	"mallocx", "rallocx", "xallocx", "dallocx", "sdallocx", "free_sized", "free_aligned_sized"};

static const char *const native_prefixes[] = {"_rjem_", "mi_"};

static bool is_allocator(const char *symbol)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(allocator_names); i++)
		if (!strcmp(symbol, allocator_names[i]))
			return true;
	return false;
}

static bool elf_open(const char *path, struct elf_file *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
		(size_t)st.st_size < sizeof(Elf64_Ehdr)) {
		close(fd);
		return false;
	}
	ret->bytes = (size_t)st.st_size;
	ret->data = mmap(NULL, ret->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	ck_assert_ptr_ne(ret->data, MAP_FAILED);
	const Elf64_Ehdr *ehdr = (const Elf64_Ehdr *)ret->data;
	if (memcmp(ehdr->e_ident, ELFMAG, SELFMAG) || ehdr->e_machine != EM_X86_64) {
		munmap(ret->data, ret->bytes);
		return false;
	}
	ret->phdr = (const Elf64_Phdr *)(ret->data + ehdr->e_phoff);
	ret->phdr_count = ehdr->e_phnum;
	return true;
}

/* The file's bytes that are loaded at `vaddr`. */
static const void *elf_at(const struct elf_file *elf, uint64_t vaddr)
{
	for (size_t i = 0; i < elf->phdr_count; i++) {
		const Elf64_Phdr *p = &elf->phdr[i];
		if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr && vaddr < p->p_vaddr + p->p_filesz)
			return elf->data + p->p_offset + (vaddr - p->p_vaddr);
	}
	return NULL;
}

struct dynamic {
	const Elf64_Rela *rela, *jmprel;
	uint64_t rela_bytes, jmprel_bytes;
	const Elf64_Sym *symtab;
	const char *strtab;
};

static void read_dynamic(const struct elf_file *elf, struct dynamic *ret)
{
	*ret = (struct dynamic){0};
	for (size_t i = 0; i < elf->phdr_count; i++) {
		if (elf->phdr[i].p_type != PT_DYNAMIC)
			continue;
		const Elf64_Dyn *dyn = (const Elf64_Dyn *)(elf->data + elf->phdr[i].p_offset);
		for (; dyn->d_tag != DT_NULL; dyn++) {
			if (dyn->d_tag == DT_RELA)
				ret->rela = elf_at(elf, dyn->d_un.d_ptr);
			else if (dyn->d_tag == DT_RELASZ)
				ret->rela_bytes = dyn->d_un.d_val;
			else if (dyn->d_tag == DT_JMPREL)
				ret->jmprel = elf_at(elf, dyn->d_un.d_ptr);
			else if (dyn->d_tag == DT_PLTRELSZ)
				ret->jmprel_bytes = dyn->d_un.d_val;
			else if (dyn->d_tag == DT_SYMTAB)
				ret->symtab = elf_at(elf, dyn->d_un.d_ptr);
			else if (dyn->d_tag == DT_STRTAB)
				ret->strtab = elf_at(elf, dyn->d_un.d_ptr);
		}
	}
}

/* A function of an allocator that is linked in, from the symbols of the file or of PATH.debug. */
struct native {
	uint64_t vaddr;
	const char *symbol;
};

struct natives {
	struct elf_file debug; /* data NULL: not needed, or there is none */
	struct native native[64];
	size_t count;
};

static const Elf64_Shdr *section_of(const struct elf_file *elf, const char *name)
{
	const Elf64_Ehdr *ehdr = (const Elf64_Ehdr *)elf->data;
	const Elf64_Shdr *section = (const Elf64_Shdr *)(elf->data + ehdr->e_shoff);
	if (!ehdr->e_shoff || !ehdr->e_shnum)
		return NULL;
	const char *names = (const char *)elf->data + section[ehdr->e_shstrndx].sh_offset;
	for (size_t i = 0; i < ehdr->e_shnum; i++)
		if (!strcmp(names + section[i].sh_name, name))
			return &section[i];
	return NULL;
}

static bool is_native(const char *symbol)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(native_prefixes); i++) {
		size_t length = strlen(native_prefixes[i]);
		if (!strncmp(symbol, native_prefixes[i], length) && is_allocator(symbol + length))
			return true;
	}
	return false;
}

static void add_natives(const struct elf_file *elf, struct natives *ret)
{
	const Elf64_Shdr *symbols = section_of(elf, ".symtab");
	const Elf64_Shdr *strings = section_of(elf, ".strtab");
	if (!symbols || !strings)
		return;
	const Elf64_Sym *symbol = (const Elf64_Sym *)(elf->data + symbols->sh_offset);
	for (size_t i = 0; i < symbols->sh_size / sizeof(*symbol); i++) {
		const char *name = (const char *)elf->data + strings->sh_offset + symbol[i].st_name;
		if (ELF64_ST_TYPE(symbol[i].st_info) != STT_FUNC || !symbol[i].st_value ||
			!is_native(name))
			continue;
		ck_assert_uint_lt(ret->count, HT_ARRAY_SIZE(ret->native));
		ret->native[ret->count++] = (struct native){symbol[i].st_value, name};
	}
}

static void natives_open(const struct elf_file *elf, const char *path, struct natives *ret)
{
	char debug[4200];
	*ret = (struct natives){0};
	add_natives(elf, ret);
	snprintf(debug, sizeof(debug), "%s.debug", path);
	if (!section_of(elf, ".symtab") && elf_open(debug, &ret->debug))
		add_natives(&ret->debug, ret);
}

static void natives_close(struct natives *natives)
{
	if (natives->debug.data)
		munmap(natives->debug.data, natives->debug.bytes);
}

struct module_at {
	const char *path;
	uint64_t bias, lo, hi;
	int mem_fd;
};

static void add_word(const struct module_at *module, struct gotword word, const char *symbol,
	struct gotwords *ret)
{
	snprintf(word.symbol, sizeof(word.symbol), "%.47s", symbol);
	snprintf(word.module, sizeof(word.module), "%.159s", module->path);
	ret->word = realloc(ret->word, (ret->count + 1) * sizeof(word));
	ck_assert_ptr_nonnull(ret->word);
	ret->word[ret->count++] = word;
}

/* Adds a word of .got if `vaddr`, which the file or a relocation puts into it, is that of a native
 * function. */
static void add_native_word(const struct module_at *module, const struct natives *natives,
	uint64_t offset, uint64_t vaddr, struct gotwords *ret)
{
	struct gotword word = {.addr = module->bias + offset, .allocator = true};
	for (size_t i = 0; i < natives->count; i++)
		if (natives->native[i].vaddr == vaddr &&
			pread(module->mem_fd, &word.value, 8, (off_t)word.addr) == 8) {
			add_word(module, word, natives->native[i].symbol, ret);
			return;
		}
}

static void add_native_words(const struct module_at *module, const struct elf_file *elf,
	const struct dynamic *dyn, const struct natives *natives, struct gotwords *ret)
{
	const Elf64_Shdr *got = section_of(elf, ".got");
	if (!got || !natives->count)
		return;
	const uint64_t *word = (const uint64_t *)(elf->data + got->sh_offset);
	bool fixed = ((const Elf64_Ehdr *)elf->data)->e_type == ET_EXEC;
	for (size_t i = 0; fixed && i < got->sh_size / 8; i++)
		add_native_word(module, natives, got->sh_addr + i * 8, word[i], ret);
	for (size_t i = 0; dyn->rela && i < dyn->rela_bytes / sizeof(*dyn->rela); i++) {
		const Elf64_Rela *rela = &dyn->rela[i];
		if (ELF64_R_TYPE(rela->r_info) == R_X86_64_RELATIVE &&
			rela->r_offset >= got->sh_addr &&
			rela->r_offset < got->sh_addr + got->sh_size)
			add_native_word(
				module, natives, rela->r_offset, (uint64_t)rela->r_addend, ret);
	}
}

static void add_words(const struct module_at *module, const struct dynamic *dyn,
	const Elf64_Rela *rela, uint64_t bytes, struct gotwords *ret)
{
	for (size_t i = 0; rela && i < bytes / sizeof(*rela); i++) {
		uint32_t type = ELF64_R_TYPE(rela[i].r_info);
		if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)
			continue;
		struct gotword word = {.addr = module->bias + rela[i].r_offset};
		if (pread(module->mem_fd, &word.value, 8, (off_t)word.addr) != 8)
			continue;
		const char *symbol = dyn->strtab + dyn->symtab[ELF64_R_SYM(rela[i].r_info)].st_name;
		word.allocator = is_allocator(symbol);
		word.lazy = type == R_X86_64_JUMP_SLOT && word.value >= module->lo &&
			    word.value < module->hi;
		add_word(module, word, symbol, ret);
	}
}

static void add_module(const char *path, uint64_t lo, uint64_t hi, int mem_fd, struct gotwords *ret)
{
	struct elf_file elf;
	if (!elf_open(path, &elf))
		return;
	uint64_t first_vaddr = UINT64_MAX;
	for (size_t i = 0; i < elf.phdr_count; i++)
		if (elf.phdr[i].p_type == PT_LOAD && elf.phdr[i].p_vaddr < first_vaddr)
			first_vaddr = elf.phdr[i].p_vaddr;
	struct module_at module = {.path = path,
		.bias = lo - ht_align_down(first_vaddr, HT_PAGE_BYTES),
		.lo = lo,
		.hi = hi,
		.mem_fd = mem_fd};
	struct dynamic dyn;
	read_dynamic(&elf, &dyn);
	if (dyn.symtab && dyn.strtab) {
		add_words(&module, &dyn, dyn.rela, dyn.rela_bytes, ret);
		add_words(&module, &dyn, dyn.jmprel, dyn.jmprel_bytes, ret);
	}
	struct natives natives;
	natives_open(&elf, path, &natives);
	add_native_words(&module, &elf, &dyn, &natives, ret);
	natives_close(&natives);
	munmap(elf.data, elf.bytes);
}

void gotwords_read(pid_t pid, struct gotwords *ret)
{
	*ret = (struct gotwords){0};
	char name[64];
	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	FILE *maps = fopen(name, "re");
	snprintf(name, sizeof(name), "/proc/%d/mem", pid);
	int mem_fd = open(name, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(maps && mem_fd >= 0, "process %d has ended", pid);
	char line[4400], last_path[4096] = "", path[4096];
	uint64_t lo, hi, offset, first_lo = 0, last_hi = 0;
	while (fgets(line, sizeof(line), maps)) {
		path[0] = '\0';
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095[^\n]", &lo, &hi, &offset, path) < 3)
			continue;
		if (path[0] && !strcmp(path, last_path)) {
			last_hi = hi;
			continue;
		}
		if (last_path[0] == '/' && !strstr(last_path, "/ld-linux"))
			add_module(last_path, first_lo, last_hi, mem_fd, ret);
		snprintf(last_path, sizeof(last_path), "%s", offset ? "" : path);
		first_lo = lo;
		last_hi = hi;
	}
	fclose(maps);
	close(mem_fd);
}

void gotwords_deinit(struct gotwords *words)
{
	free(words->word);
}

static bool is_ours(pid_t pid, uint64_t addr)
{
	char line[4400];
	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *maps = fopen(line, "re");
	ck_assert_ptr_nonnull(maps);
	bool ours = false;
	uint64_t lo, hi;
	while (!ours && fgets(line, sizeof(line), maps))
		ours = sscanf(line, "%lx-%lx", &lo, &hi) == 2 && addr >= lo && addr < hi &&
		       strstr(line, "/memfd:heaptap-");
	fclose(maps);
	return ours;
}

size_t gotwords_tapped(pid_t pid, const char *module, size_t *ret_all)
{
	struct gotwords words;
	gotwords_read(pid, &words);
	size_t tapped = 0, all = 0;
	for (size_t i = 0; i < words.count; i++) {
		const struct gotword *word = &words.word[i];
		size_t path_length = strlen(word->module), length = strlen(module);
		if (!word->allocator || !word->value || path_length < length ||
			strcmp(word->module + path_length - length, module))
			continue;
		all++;
		tapped += is_ours(pid, word->value);
	}
	gotwords_deinit(&words);
	if (ret_all)
		*ret_all = all;
	return tapped;
}
