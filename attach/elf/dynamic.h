/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic section of a module, read from the target's memory, and lookup in the dynamic symbol
 * table that it points to. All tables lie inside of the module; what does not is taken as absent.
 */
#pragma once

#include "attach/elf/budget.h"
#include "attach/elf/module.h"
#include "attach/proc/proc.h"

#define DYNAMIC_SONAME_BYTES 32u
#define DYNAMIC_VERSIONS_MAX 4u /* symbols of one name that dynamic_lookup gives */

struct dynamic_table {
	raddr_t addr; /* 0: absent */
	uint64_t bytes;
};

struct dynamic {
	raddr_t lo, hi;		   /* of the module */
	struct dynamic_table rela; /* without the leading ARCH_RELOC_RELATIVE ones */
	struct dynamic_table jmprel;
	struct dynamic_table strtab;
	raddr_t symtab; /* its length is not recorded; it ends before `hi` */
	raddr_t hash, gnu_hash;
	raddr_t versym, verdef, verneed;   /* 0: absent (version.h) */
	char soname[DYNAMIC_SONAME_BYTES]; /* DT_SONAME, or as much of it; "": none */
	bool symbolic;			   /* its own definitions come before all others for it */
	bool has_versions; /* of its own names: a reference to another one is not bound to it */
};

HT_MUST_CHECK
struct ht_err *dynamic_read(
	const struct proc *proc, const struct module *module, struct dynamic *ret);
/*
 * The symbols called `name` that the dynamic linker would find in this module, at most
 * DYNAMIC_VERSIONS_MAX: definitions, and canonical PLT entries (SHN_UNDEF with a value). Each read
 * is a step of `budget` (NULL: unbounded but for the length of a chain); without one there are
 * none. `ret_index`: of each in the symbol table; NULL: not wanted.
 */
HT_MUST_CHECK
struct ht_err *dynamic_lookup(const struct proc *proc, const struct dynamic *dynamic,
	const char *name, struct budget *budget, Elf64_Sym ret[DYNAMIC_VERSIONS_MAX],
	uint32_t ret_index[DYNAMIC_VERSIONS_MAX], size_t *ret_count);
