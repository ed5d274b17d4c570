/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/dynamic.h"

#include <string.h>

#include "attach/allocators/given.h"
#include "attach/memory/memory.h"

#define ENTRIES_MAX	4096u  /* of a dynamic section */
#define CHAIN_STEPS_MAX 65536u /* of a hash chain: a hostile one may be endless */
#define NAME_MAX_BYTES	GIVEN_NAME_BYTES

/* The entries, unchecked. */
struct raw {
	uint64_t symtab, strtab, strsz, syment;
	uint64_t rela, relasz, relaent, relacount;
	uint64_t jmprel, pltrelsz, pltrel;
	uint64_t hash, gnu_hash;
	uint64_t verdefs, versym, verdef, verneed;
	uint64_t soname;
	uint64_t flags;
	bool symbolic;
};

static void entry_take(const Elf64_Dyn *entry, struct raw *raw)
{
	static const struct {
		Elf64_Sxword tag;
		size_t field;
	} wanted[] = {
		{DT_SYMTAB, offsetof(struct raw, symtab)},
		{DT_STRTAB, offsetof(struct raw, strtab)},
		{DT_STRSZ, offsetof(struct raw, strsz)},
		{DT_SYMENT, offsetof(struct raw, syment)},
		{DT_RELA, offsetof(struct raw, rela)},
		{DT_RELASZ, offsetof(struct raw, relasz)},
		{DT_RELAENT, offsetof(struct raw, relaent)},
		{DT_RELACOUNT, offsetof(struct raw, relacount)},
		{DT_JMPREL, offsetof(struct raw, jmprel)},
		{DT_PLTRELSZ, offsetof(struct raw, pltrelsz)},
		{DT_PLTREL, offsetof(struct raw, pltrel)},
		{DT_HASH, offsetof(struct raw, hash)},
		{DT_GNU_HASH, offsetof(struct raw, gnu_hash)},
		{DT_VERDEFNUM, offsetof(struct raw, verdefs)},
		{DT_VERSYM, offsetof(struct raw, versym)},
		{DT_VERDEF, offsetof(struct raw, verdef)},
		{DT_VERNEED, offsetof(struct raw, verneed)},
		{DT_SONAME, offsetof(struct raw, soname)},
		{DT_FLAGS, offsetof(struct raw, flags)},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wanted); i++)
		if (entry->d_tag == wanted[i].tag)
			memcpy((uint8_t *)raw + wanted[i].field, &entry->d_un.d_val,
				sizeof(entry->d_un.d_val));
	raw->symbolic |= entry->d_tag == DT_SYMBOLIC;
}

static struct ht_err *raw_read(
	const struct proc *proc, const struct module *module, struct raw *raw)
{
	Elf64_Dyn block[64];
	size_t count = module->dynamic_bytes / sizeof(Elf64_Dyn);
	if (count > ENTRIES_MAX)
		count = ENTRIES_MAX;
	for (size_t done = 0; done < count;) {
		size_t step =
			count - done < HT_ARRAY_SIZE(block) ? count - done : HT_ARRAY_SIZE(block);
		size_t got;
		HT_TRY(memory_read_some(proc, module->dynamic + done * sizeof(*block), block,
			step * sizeof(*block), &got));
		step = got / sizeof(*block);
		for (size_t i = 0; i < step; i++) {
			if (block[i].d_tag == DT_NULL)
				return NULL;
			entry_take(&block[i], raw);
		}
		if (!step)
			return NULL;
		done += step;
	}
	return NULL;
}

/* glibc replaces the link-time addresses in the section by real ones; musl and the kernel (for the
 * vDSO) do not. */
static raddr_t locate(const struct module *module, uint64_t ptr, uint64_t bytes)
{
	const raddr_t candidates[] = {ptr, ptr + module->bias};
	for (size_t i = 0; i < HT_ARRAY_SIZE(candidates); i++)
		if (ptr && candidates[i] >= module->lo && candidates[i] < module->hi &&
			bytes <= module->hi - candidates[i])
			return candidates[i];
	return 0;
}

static struct dynamic_table table_at(const struct module *module, uint64_t ptr, uint64_t bytes)
{
	raddr_t addr = locate(module, ptr, bytes);
	return addr && bytes ? (struct dynamic_table){addr, bytes} : (struct dynamic_table){0, 0};
}

static struct dynamic_table without_relative(struct dynamic_table rela, uint64_t count)
{
	uint64_t skip =
		count < rela.bytes / sizeof(Elf64_Rela) ? count * sizeof(Elf64_Rela) : rela.bytes;
	return (struct dynamic_table){rela.addr + skip, rela.bytes - skip};
}

static struct ht_err *soname_read(const struct proc *proc, uint64_t offset, struct dynamic *dynamic)
{
	size_t got, want = sizeof(dynamic->soname) - 1;
	if (!offset || offset >= dynamic->strtab.bytes)
		return NULL;
	if (want > dynamic->strtab.bytes - offset)
		want = dynamic->strtab.bytes - offset;
	return memory_read_some(proc, dynamic->strtab.addr + offset, dynamic->soname, want, &got);
}

struct ht_err *dynamic_read(
	const struct proc *proc, const struct module *module, struct dynamic *ret)
{
	struct raw raw = {.syment = sizeof(Elf64_Sym), .relaent = sizeof(Elf64_Rela)};
	*ret = (struct dynamic){.lo = module->lo, .hi = module->hi};
	struct ht_err *err = module->dynamic ? raw_read(proc, module, &raw) : NULL;
	if (err || raw.syment != sizeof(Elf64_Sym))
		return err;
	ret->symtab = locate(module, raw.symtab, sizeof(Elf64_Sym));
	ret->strtab = table_at(module, raw.strtab, raw.strsz);
	ret->hash = locate(module, raw.hash, 2 * sizeof(uint32_t));
	ret->gnu_hash = locate(module, raw.gnu_hash, 4 * sizeof(uint32_t));
	ret->versym = locate(module, raw.versym, sizeof(uint16_t));
	ret->verdef = locate(module, raw.verdef, sizeof(Elf64_Verdef));
	ret->verneed = locate(module, raw.verneed, sizeof(Elf64_Verneed));
	if (raw.relaent == sizeof(Elf64_Rela))
		ret->rela = without_relative(table_at(module, raw.rela, raw.relasz), raw.relacount);
	ret->has_versions = raw.verdefs != 0;
	ret->symbolic = raw.symbolic || raw.flags & DF_SYMBOLIC;
	if (raw.pltrel == DT_RELA)
		ret->jmprel = table_at(module, raw.jmprel, raw.pltrelsz);
	return soname_read(proc, raw.soname, ret);
}

/* A lookup in progress. Its first error ends it. */
struct lookup {
	const struct proc *proc;
	const struct dynamic *dynamic;
	struct budget *budget;
	const char *name;
	size_t name_bytes; /* including the NUL */
	Elf64_Sym *found;
	uint32_t *found_index;
	size_t found_count;
	struct ht_err *err;
};

/* Reads element `index` of an array within the module; false: there is none. */
static bool element_read(
	struct lookup *lookup, raddr_t array, uint64_t index, void *ret, size_t bytes)
{
	const struct dynamic *dynamic = lookup->dynamic;
	size_t got = 0;
	if (lookup->err || array >= dynamic->hi || index >= (dynamic->hi - array) / bytes ||
		!budget_step(lookup->budget))
		return false;
	lookup->err = memory_read_some(lookup->proc, array + index * bytes, ret, bytes, &got);
	return got == bytes;
}

static bool word_read(struct lookup *lookup, raddr_t array, uint64_t index, uint32_t *ret)
{
	return element_read(lookup, array, index, ret, sizeof(*ret));
}

static void symbol_consider(struct lookup *lookup, uint64_t index)
{
	Elf64_Sym symbol;
	char name[NAME_MAX_BYTES];
	const struct dynamic_table *strtab = &lookup->dynamic->strtab;
	size_t got;
	if (lookup->found_count == DYNAMIC_VERSIONS_MAX ||
		!element_read(lookup, lookup->dynamic->symtab, index, &symbol, sizeof(symbol)))
		return;
	if (!symbol.st_value || symbol.st_name >= strtab->bytes ||
		lookup->name_bytes > strtab->bytes - symbol.st_name || !budget_step(lookup->budget))
		return;
	lookup->err = memory_read_some(
		lookup->proc, strtab->addr + symbol.st_name, name, lookup->name_bytes, &got);
	if (got != lookup->name_bytes || memcmp(name, lookup->name, got) != 0)
		return;
	if (lookup->found_index)
		lookup->found_index[lookup->found_count] = (uint32_t)index;
	lookup->found[lookup->found_count++] = symbol;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t hash = 5381;
	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static uint32_t sysv_hash_of(const char *name)
{
	uint32_t hash = 0;
	for (; *name; name++) {
		hash = (hash << 4) + (uint8_t)*name;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	return hash;
}

/*
 * { buckets, symbol_base, bloom_words, bloom_shift }, 64-bit bloom words, buckets of symbol
 * indices, then one hash per symbol from symbol_base on, odd at the end of a bucket's run.
 */
static void gnu_lookup(struct lookup *lookup, raddr_t table)
{
	uint32_t header[4], index, entry = 0, hash = gnu_hash_of(lookup->name);
	if (!element_read(lookup, table, 0, header, sizeof(header)) || !header[0])
		return;
	raddr_t buckets = table + sizeof(header) + (uint64_t)header[2] * sizeof(uint64_t);
	raddr_t hashes = buckets + (uint64_t)header[0] * sizeof(uint32_t);
	uint32_t symbol_base = header[1];
	if (!word_read(lookup, buckets, hash % header[0], &index) || index < symbol_base)
		return;
	for (uint32_t step = 0; step < CHAIN_STEPS_MAX && !(entry & 1); step++) {
		if (!word_read(lookup, hashes, (uint64_t)index - symbol_base + step, &entry))
			return;
		if ((entry | 1) == (hash | 1))
			symbol_consider(lookup, (uint64_t)index + step);
	}
}

/* { buckets, chains }, buckets of symbol indices, then each symbol's successor; 0 ends. */
static void sysv_lookup(struct lookup *lookup, raddr_t table)
{
	uint32_t header[2], index;
	if (!element_read(lookup, table, 0, header, sizeof(header)) || !header[0])
		return;
	raddr_t buckets = table + sizeof(header);
	raddr_t chains = buckets + (uint64_t)header[0] * sizeof(uint32_t);
	if (!word_read(lookup, buckets, sysv_hash_of(lookup->name) % header[0], &index))
		return;
	for (uint32_t step = 0; step < CHAIN_STEPS_MAX && index; step++) {
		symbol_consider(lookup, index);
		if (!word_read(lookup, chains, index, &index))
			return;
	}
}

struct ht_err *dynamic_lookup(const struct proc *proc, const struct dynamic *dynamic,
	const char *name, struct budget *budget, Elf64_Sym ret[DYNAMIC_VERSIONS_MAX],
	uint32_t ret_index[DYNAMIC_VERSIONS_MAX], size_t *ret_count)
{
	struct lookup lookup = {.proc = proc,
		.dynamic = dynamic,
		.budget = budget,
		.name = name,
		.name_bytes = strlen(name) + 1,
		.found = ret,
		.found_index = ret_index};
	*ret_count = 0;
	if (lookup.name_bytes > NAME_MAX_BYTES)
		return ht_err_new(HT_ERR_INTERNAL, "symbol name too long to look up: %s", name);
	if (!dynamic->symtab || !dynamic->strtab.addr)
		return NULL;
	if (dynamic->gnu_hash)
		gnu_lookup(&lookup, dynamic->gnu_hash);
	else if (dynamic->hash)
		sysv_lookup(&lookup, dynamic->hash);
	*ret_count = budget && budget->spent ? 0 : lookup.found_count;
	return lookup.err;
}
