/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocators linked into the executable, which no slot leads to: found in its file's symbols.
 */
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/elf/slots.h"

/* What names an allocator. `everywhere`: in every program of its kind, whatever it allocates by. */
static const struct {
	const char *symbol, *allocator;
	bool everywhere;
} known[] = {
	{"_rjem_malloc", "jemalloc", false},
	{"je_malloc", "jemalloc", false},
	{"mallocx", "jemalloc", false},
	{"mi_malloc", "mimalloc", false},
	{"tc_malloc", "tcmalloc", false},
	{"GC_malloc", "the Boehm collector", false},
	{"runtime.mallocgc", "the Go runtime", false},
	{"malloc", "malloc", false},
	{"__rust_alloc", "Rust", true},
	{"__rdl_alloc", "Rust", true},
};

struct search {
	const struct module *executable;
	const struct slots *slots;
	bool has_slots; /* the executable has some that are an allocator's */
	bool found[HT_ARRAY_SIZE(known)];
};

static bool is_tapped(const struct search *search, const struct slot *slot)
{
	return slot->module_id == search->executable->id && slot->verdict == SLOT_TAP;
}

/* Slots of other modules do not count: the executable's own calls go past them. */
static bool reached_by_slot(const struct search *search, raddr_t addr)
{
	for (size_t i = 0; i < search->slots->count; i++)
		if (is_tapped(search, &search->slots->slot[i]) &&
			search->slots->slot[i].real == addr)
			return true;
	return false;
}

static void symbol_consider(struct search *search, const GElf_Sym *symbol, const char *name)
{
	unsigned type = GELF_ST_TYPE(symbol->st_info);
	if (!name || symbol->st_shndx == SHN_UNDEF || !symbol->st_value ||
		(type != STT_FUNC && type != STT_GNU_IFUNC) ||
		reached_by_slot(search, search->executable->bias + symbol->st_value))
		return;
	for (size_t i = 0; i < HT_ARRAY_SIZE(known); i++)
		if (!strcmp(name, known[i].symbol) && !(known[i].everywhere && search->has_slots))
			search->found[i] = true;
}

static void table_search(struct search *search, Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Sym symbol;
	for (int i = 0; data && gelf_getsym(data, i, &symbol); i++)
		symbol_consider(search, &symbol, elf_strptr(elf, header->sh_link, symbol.st_name));
}

static bool build_id_matches(const struct module *module, Elf *elf)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		GElf_Nhdr note;
		size_t name, desc, at = 0;
		while (data && (at = gelf_getnote(data, at, &note, &name, &desc)))
			if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
				!memcmp((char *)data->d_buf + name, ELF_NOTE_GNU, 4))
				return note.n_descsz == module->build_id_bytes &&
				       !memcmp((char *)data->d_buf + desc, module->build_id,
					       note.n_descsz);
	}
	return module->build_id_bytes == 0;
}

static void file_search(struct search *search, int fd)
{
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF && build_id_matches(search->executable, elf))
		for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
			GElf_Shdr header;
			if (gelf_getshdr(section, &header) &&
				(header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM))
				table_search(search, elf, section, &header);
		}
	elf_end(elf);
}

/* "jemalloc (_rjem_malloc), Rust (__rust_alloc)": each allocator once. */
static char *describe(const struct search *search)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	const char *last = NULL;
	for (size_t i = 0; out && i < HT_ARRAY_SIZE(known); i++) {
		if (!search->found[i] || (last && !strcmp(last, known[i].allocator)))
			continue;
		fprintf(out, "%s%s (%s)", last ? ", " : "", known[i].allocator, known[i].symbol);
		last = known[i].allocator;
	}
	if (!out || fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static const struct module *executable_of(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->module[i].executable && !modules->module[i].interpreter)
			return &modules->module[i];
	return NULL;
}

static void executable_search(struct search *search, const struct proc *proc)
{
	int fd = openat(proc->dir_fd, "exe", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	for (size_t i = 0; i < search->slots->count && !search->has_slots; i++)
		search->has_slots = is_tapped(search, &search->slots->slot[i]);
	file_search(search, fd);
	close(fd);
}

struct ht_err *slots_static_allocators(
	const struct proc *proc, const struct modules *modules, char **ret)
{
	struct slots slots;
	struct ht_err *err = slots_read(proc, modules, 0, 0, &slots);
	if (err)
		return err;
	struct search search = {.executable = executable_of(modules), .slots = &slots};
	if (search.executable)
		executable_search(&search, proc);
	slots_deinit(&slots);
	*ret = describe(&search);
	return *ret ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory for the names of allocators");
}
