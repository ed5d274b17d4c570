/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic section of a module, read from the target's memory, and lookups in its dynamic symbol
 * table. A table that is not entirely within the module counts as absent.
 */
#pragma once

#include "attach/elf/budget.h"
#include "attach/elf/module.h"
#include "attach/proc/proc.h"

#define DYNAMIC_SONAME_BYTES 32u
#define DYNAMIC_VERSIONS_MAX 4u /* most symbols of one name that dynamic_lookup returns */

struct dynamic_table {
	raddr_t addr; /* 0: absent */
	uint64_t bytes;
};

struct dynamic {
	raddr_t lo, hi;		   /* of the module */
	struct dynamic_table rela; /* without the leading ARCH_RELOC_RELATIVE entries */
	struct dynamic_table jmprel;
	struct dynamic_table strtab;
	raddr_t symtab; /* its length is not recorded; it ends below `hi` */
	raddr_t hash, gnu_hash;
	raddr_t versym, verdef, verneed;   /* 0: absent (version.h) */
	char soname[DYNAMIC_SONAME_BYTES]; /* beginning of DT_SONAME, with a NUL; "": none */
	bool symbolic;	   /* the module's own definitions come first for its references */
	bool has_versions; /* the module's names have versions: a reference with another version is
			      not bound to it */
};

/* Reads the dynamic section. All is absent if the module has none, or has symbol entries of another
 * size. */
HT_MUST_CHECK
struct ht_err *dynamic_read(
	const struct proc *proc, const struct module *module, struct dynamic *ret);
/* Finds the symbols called `name` that the dynamic linker would find in this module, at most
 * DYNAMIC_VERSIONS_MAX: definitions and canonical PLT entries (SHN_UNDEF with a value). Each read
 * takes a step off `budget`; a spent budget gives no symbols. NULL: only the length of a hash chain
 * is limited. `ret_index`: the symbols' indices in the symbol table; NULL: not wanted.
 * HT_ERR_INTERNAL if `name` has GIVEN_NAME_BYTES characters or more. */
HT_MUST_CHECK
struct ht_err *dynamic_lookup(const struct proc *proc, const struct dynamic *dynamic,
	const char *name, struct budget *budget, Elf64_Sym ret[DYNAMIC_VERSIONS_MAX],
	uint32_t ret_index[DYNAMIC_VERSIONS_MAX], size_t *ret_count);
