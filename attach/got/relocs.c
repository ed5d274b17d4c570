/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/got/relocs.h"

#include <stdlib.h>
#include <string.h>

#include "attach/memory/memory.h"
#include "format/arch.h"
#include "format/array.h"

#define TABLE_MAX_BYTES (64u << 20)

/* Room for the longest name and its NUL. heaptap looks for no longer name. */
#define NAME_BYTES		  GIVEN_NAME_BYTES
#define X(id, name, shape, arity) _Static_assert(sizeof(#name) <= NAME_BYTES, "too long: " #name);
ABI_HOOKS(X)
#undef X
#define X(id, name, ...) _Static_assert(sizeof(#name) <= NAME_BYTES, "too long: " #name);
ABI_SIZED_FREES(X)
ABI_GUARDS(X)
#undef X
#define X(id, name, arity) _Static_assert(sizeof(#name) <= NAME_BYTES, "too long: " #name);
ABI_MAPPINGS(X)
#undef X

/* A copy of a table of the module; shorter than announced if the target cannot be read. */
struct table {
	uint8_t *data;
	size_t bytes;
};

static struct ht_err *table_read(const struct proc *proc, const struct dynamic_table *from,
	struct budget *budget, struct table *ret)
{
	*ret = (struct table){0};
	if (!from->bytes || from->bytes > TABLE_MAX_BYTES || !budget_bytes(budget, from->bytes))
		return NULL;
	ret->data = malloc(from->bytes);
	if (!ret->data)
		return ht_err_new(
			HT_ERR_NOMEM, "no memory for the relocations of process %d", proc->pid);
	return memory_read_some(proc, from->addr, ret->data, from->bytes, &ret->bytes);
}

static bool is_wanted(const Elf64_Rela *rela)
{
	switch (ELF64_R_TYPE(rela->r_info)) {
	case ARCH_RELOC_PLT:
	case ARCH_RELOC_GOT:
	case ARCH_RELOC_WORD:
		return ELF64_R_SYM(rela->r_info) != 0;
	default:
		return false;
	}
}

static Elf64_Rela rela_at(const struct table *table, size_t index)
{
	Elf64_Rela rela;
	memcpy(&rela, table->data + index * sizeof(rela), sizeof(rela));
	return rela;
}

static size_t rela_count(const struct table *table)
{
	return table->bytes / sizeof(Elf64_Rela);
}

/* How much of the symbol table the relocations use. */
struct usage {
	uint64_t symbols; /* highest index plus one */
	uint64_t relocs;
};

static void usage_add(struct usage *usage, const struct table *relas)
{
	for (size_t i = 0; i < rela_count(relas); i++) {
		Elf64_Rela rela = rela_at(relas, i);
		if (!is_wanted(&rela))
			continue;
		usage->relocs++;
		if (ELF64_R_SYM(rela.r_info) >= usage->symbols)
			usage->symbols = ELF64_R_SYM(rela.r_info) + 1;
	}
}

/* The used part of the symbol table, whose length is not recorded. */
static struct dynamic_table symbols_used(const struct dynamic *dynamic, const struct usage *usage)
{
	uint64_t fits = (dynamic->hi - dynamic->symtab) / sizeof(Elf64_Sym);
	uint64_t count = usage->symbols < fits ? usage->symbols : fits;
	return (struct dynamic_table){dynamic->symtab, count * sizeof(Elf64_Sym)};
}

/* Names are copied as a whole or, if few of many are used (Node.js has 15 MB of them), read one by
 * one: a copy would make the target's pages resident. */
struct names {
	const struct proc *proc;
	struct budget *budget;
	struct dynamic_table from;
	struct table copy;
};

static struct ht_err *names_init(struct names *names, const struct proc *proc,
	const struct dynamic *dynamic, const struct usage *usage, struct budget *budget)
{
	*names = (struct names){.proc = proc, .budget = budget, .from = dynamic->strtab};
	if (usage->relocs < names->from.bytes / HT_PAGE_BYTES)
		return NULL;
	return usage->relocs ? table_read(proc, &names->from, budget, &names->copy) : NULL;
}

static struct ht_err *name_read(
	const struct names *names, uint64_t offset, char ret[NAME_BYTES], size_t *ret_bytes)
{
	*ret_bytes = 0;
	if (offset >= names->from.bytes)
		return NULL;
	size_t bytes =
		names->from.bytes - offset < NAME_BYTES ? names->from.bytes - offset : NAME_BYTES;
	if (!names->copy.data)
		return budget_step(names->budget)
			       ? memory_read_some(names->proc, names->from.addr + offset, ret,
					 bytes, ret_bytes)
			       : NULL;
	if (offset < names->copy.bytes) {
		*ret_bytes =
			names->copy.bytes - offset < bytes ? names->copy.bytes - offset : bytes;
		memcpy(ret, names->copy.data + offset, *ret_bytes);
	}
	return NULL;
}

/* A hash table of all names: heaptap looks up every relocation of the program. */
#define BUCKETS 256u

struct name_table {
	uint32_t generation;	/* of given_generation */
	uint16_t head[BUCKETS]; /* number plus one; 0: none */
	uint16_t next[TAP_NAMES_MAX];
};

/* FNV-1a (Fowler, Noll, Vo). */
static uint32_t bucket_of(const char *name)
{
	uint32_t hash = 2166136261u;
	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 16777619u;
	return (hash ^ hash >> 16) % BUCKETS;
}

/* If two numbers have one name, the first counts. */
static void names_add(struct name_table *table, uint32_t from, uint32_t to)
{
	for (uint32_t i = to; i-- > from;) {
		if (abi_is_new((enum abi_hook)i))
			continue;
		uint16_t *head = &table->head[bucket_of(tap_name(i))];
		table->next[i] = *head;
		*head = (uint16_t)(i + 1);
	}
}

static uint32_t find_name(const char *name)
{
	static struct name_table table = {.generation = UINT32_MAX};
	if (table.generation != given_generation()) {
		table = (struct name_table){.generation = given_generation()};
		names_add(&table, TAP_NAME_FAMILY, TAP_NAME_FAMILY + (uint32_t)family_name_count());
		names_add(&table, 0, TAP_NAME_GIVEN + given_used()->count);
	}
	for (uint32_t i = table.head[bucket_of(name)]; i; i = table.next[i - 1])
		if (!strcmp(name, tap_name(i - 1)))
			return i - 1;
	return TAP_NAMES_MAX;
}

/* The name of symbol `index`; "": none, or too long. */
static struct ht_err *symbol_name(const struct names *names, const struct table *symbols,
	uint64_t index, char ret[NAME_BYTES])
{
	Elf64_Sym symbol;
	size_t bytes;
	ret[0] = '\0';
	if (index >= symbols->bytes / sizeof(symbol))
		return NULL;
	memcpy(&symbol, symbols->data + index * sizeof(symbol), sizeof(symbol));
	struct ht_err *err = name_read(names, symbol.st_name, ret, &bytes);
	if (err || !memchr(ret, '\0', bytes))
		ret[0] = '\0';
	return err;
}

/* The tables from which the relocations of one module are read. */
struct source {
	const struct module *module;
	struct table rela, jmprel, symbols;
	struct names names;
};

/* A relocation of the word at `addr` that names the symbol `name`. */
typedef struct ht_err *visit_reloc(
	void *context, raddr_t addr, const Elf64_Rela *rela, const char *name);

static struct ht_err *visit_table(
	const struct source *source, const struct table *relas, visit_reloc *visit, void *context)
{
	const struct module *module = source->module;
	char name[NAME_BYTES];
	for (size_t i = 0; i < rela_count(relas); i++) {
		Elf64_Rela rela = rela_at(relas, i);
		raddr_t addr = module->bias + rela.r_offset;
		if (!is_wanted(&rela) || addr < module->lo || addr > module->hi - sizeof(uint64_t))
			continue;
		HT_TRY(symbol_name(
			&source->names, &source->symbols, ELF64_R_SYM(rela.r_info), name));
		if (name[0])
			HT_TRY(visit(context, addr, &rela, name));
	}
	return NULL;
}

static struct ht_err *source_read(const struct proc *proc, const struct dynamic *dynamic,
	struct budget *budget, struct source *source)
{
	struct usage usage = {0};
	HT_TRY(table_read(proc, &dynamic->rela, budget, &source->rela));
	HT_TRY(table_read(proc, &dynamic->jmprel, budget, &source->jmprel));
	usage_add(&usage, &source->rela);
	usage_add(&usage, &source->jmprel);
	struct dynamic_table used = symbols_used(dynamic, &usage);
	HT_TRY(table_read(proc, &used, budget, &source->symbols));
	return names_init(&source->names, proc, dynamic, &usage, budget);
}

static void source_deinit(struct source *source)
{
	free(source->rela.data);
	free(source->jmprel.data);
	free(source->symbols.data);
	free(source->names.copy.data);
}

static struct ht_err *visit_all(const struct proc *proc, const struct module *module,
	const struct dynamic *dynamic, struct budget *budget, visit_reloc *visit, void *context)
{
	HT_CLEANUP(source_deinit) struct source source = {.module = module};
	if (!dynamic->symtab || !dynamic->strtab.addr)
		return NULL;
	HT_TRY(source_read(proc, dynamic, budget, &source));
	HT_TRY(visit_table(&source, &source.rela, visit, context));
	return visit_table(&source, &source.jmprel, visit, context);
}

struct named {
	struct relocs *relocs;
	size_t capacity;
};

static struct ht_err *add_reloc(
	void *context, raddr_t addr, const Elf64_Rela *rela, const char *name)
{
	struct named *named = context;
	struct relocs *relocs = named->relocs;
	uint32_t number = find_name(name);
	if (number == TAP_NAMES_MAX)
		return NULL;
	if (!ARRAY_HAS_ROOM(relocs->reloc, relocs->count, named->capacity, 16))
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu relocations", relocs->count + 1);
	relocs->reloc[relocs->count++] = (struct reloc){.addr = addr,
		.type = (uint32_t)ELF64_R_TYPE(rela->r_info),
		.hook = tap_hook(number),
		.name = number,
		.symbol = (uint32_t)ELF64_R_SYM(rela->r_info),
		.addend = rela->r_addend};
	return NULL;
}

struct ht_err *relocs_read(const struct proc *proc, const struct module *module,
	const struct dynamic *dynamic, struct budget *budget, struct relocs *ret)
{
	struct named named = {.relocs = ret};
	*ret = (struct relocs){0};
	struct ht_err *err = visit_all(proc, module, dynamic, budget, add_reloc, &named);
	if (err)
		relocs_deinit(ret);
	return err;
}

void relocs_deinit(struct relocs *relocs)
{
	free(relocs->reloc);
	*relocs = (struct relocs){0};
}

struct wanted_words {
	const char *const *names;
	size_t name_count;
	struct reloc_word *word;
	size_t *count, max;
};

static struct ht_err *add_word(
	void *context, raddr_t addr, const Elf64_Rela *rela, const char *name)
{
	const struct wanted_words *wanted = context;
	(void)rela;
	for (size_t n = 0; n < wanted->name_count && *wanted->count < wanted->max; n++)
		if (!strcmp(name, wanted->names[n]))
			wanted->word[(*wanted->count)++] =
				(struct reloc_word){.addr = addr, .name = n};
	return NULL;
}

struct ht_err *relocs_words(const struct proc *proc, const struct module *module,
	const char *const names[], size_t name_count, struct reloc_word *ret, size_t max,
	size_t *ret_count)
{
	struct wanted_words wanted = {names, name_count, ret, ret_count, max};
	struct dynamic dynamic;
	*ret_count = 0;
	if (!module->dynamic)
		return NULL;
	HT_TRY(dynamic_read(proc, module, &dynamic));
	return visit_all(proc, module, &dynamic, NULL, add_word, &wanted);
}
