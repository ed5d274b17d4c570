/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/symtab.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "format/array.h"

/* UNSIZED_BYTES: longest reach of a function without a size. LOOK_BACK: number of entries examined,
 * from the last that starts before the address, because symbols can nest and have aliases. */
#define UNSIZED_BYTES 4096u
#define LOOK_BACK     16u
#define ALIASES_MAX   256u /* most symbols of one address that are examined */

void symtab_deinit(struct symtab *symtab)
{
	free(symtab->entry);
	*symtab = (struct symtab){0};
}

static uint8_t rank_of(const GElf_Sym *sym, const char *name)
{
	uint8_t rank = GELF_ST_BIND(sym->st_info) == STB_LOCAL ? 0 : 8;
	if (name[0] != '_')
		rank += 4;
	return sym->st_size ? rank + 2 : rank;
}

static bool is_function(const GElf_Sym *sym)
{
	unsigned type = GELF_ST_TYPE(sym->st_info);
	if (sym->st_shndx == SHN_UNDEF || sym->st_value == 0)
		return false;
	return type == STT_FUNC || type == STT_GNU_IFUNC || (type == STT_NOTYPE && sym->st_size);
}

static struct ht_err *add_section(
	struct symtab *symtab, Elf *elf, Elf_Scn *scn, const GElf_Shdr *shdr)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t count = data && shdr->sh_entsize ? data->d_size / shdr->sh_entsize : 0;
	for (size_t i = 1; i < count; i++) {
		GElf_Sym sym;
		if (!gelf_getsym(data, (int)i, &sym) || !is_function(&sym))
			continue;
		const char *name = elf_strptr(elf, shdr->sh_link, sym.st_name);
		if (!name || !name[0])
			continue;
		HT_TRY(ARRAY_RESERVE(
			symtab->entry, symtab->capacity, symtab->count + 1, "symbols"));
		symtab->entry[symtab->count++] = (struct symtab_entry){
			.from = sym.st_value,
			.to = sym.st_value + (sym.st_size ? sym.st_size : UNSIZED_BYTES),
			.is_sized = sym.st_size != 0,
			.rank = rank_of(&sym, name),
			.name = name,
		};
	}
	return NULL;
}

struct ht_err *symtab_add(struct symtab *symtab, Elf *elf)
{
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		if (!gelf_getshdr(scn, &shdr) ||
			(shdr.sh_type != SHT_SYMTAB && shdr.sh_type != SHT_DYNSYM))
			continue;
		HT_TRY(add_section(symtab, elf, scn, &shdr));
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const struct symtab_entry *x = a, *y = b;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return strcmp(y->name, x->name);
}

void symtab_sort(struct symtab *symtab)
{
	if (symtab->count)
		qsort(symtab->entry, symtab->count, sizeof(*symtab->entry), compare);
}

/* Index of the first entry that starts after `address`. */
static size_t first_behind(const struct symtab *symtab, uint64_t address)
{
	return array_from(symtab->entry, symtab->count, sizeof(*symtab->entry), address + 1);
}

/* The last entry that covers the address, of sized entries if `is_sized`; NULL: none. */
static const struct symtab_entry *find_covering(
	const struct symtab *symtab, uint64_t address, bool is_sized)
{
	size_t behind = first_behind(symtab, address);
	for (size_t back = 1; back <= LOOK_BACK && back <= behind; back++) {
		const struct symtab_entry *entry = &symtab->entry[behind - back];
		if (address < entry->to && (entry->is_sized || !is_sized))
			return entry;
	}
	return NULL;
}

const char *symtab_find(const struct symtab *symtab, uint64_t address)
{
	const struct symtab_entry *entry = find_covering(symtab, address, false);
	return entry ? entry->name : NULL;
}

/* Whether the symbol is `name`, also with a suffix of compiler or linker: "f.constprop.0",
 * "f@@VERSION". */
static bool is_called(const struct symtab_entry *entry, const char *name)
{
	size_t length = strlen(name);
	const char *rest = entry->name + length;
	return !strncmp(entry->name, name, length) && (!*rest || *rest == '.' || *rest == '@');
}

bool symtab_agrees(
	const struct symtab *symtab, uint64_t address, uint64_t from, uint64_t to, const char *name)
{
	if (!find_covering(symtab, address, true))
		return true;
	size_t behind = first_behind(symtab, from);
	for (size_t back = 1; back <= ALIASES_MAX && back <= behind; back++) {
		const struct symtab_entry *entry = &symtab->entry[behind - back];
		if (entry->from != from)
			break;
		if (!entry->is_sized || (address < entry->to && entry->to == to) ||
			(name && is_called(entry, name)))
			return true;
	}
	return false;
}
