/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions of hooked functions in the dynamic symbol tables of the modules, and the one that the
 * dynamic linker would bind a reference to. Looks each name up once.
 */
#pragma once

#include "attach/elf/dynamic.h"
#include "format/abi_hooks.h"

struct scope_name {
	bool known;
	size_t count;
	Elf64_Sym symbol[DYNAMIC_VERSIONS_MAX];
	uint32_t index[DYNAMIC_VERSIONS_MAX]; /* of each, in the module's symbol table */
};

struct scope {
	const struct proc *proc;
	const struct modules *modules;
	struct scope_tables *tables; /* one for each module */
	struct budget budget;	     /* for all reads here */
	uint64_t partial_id;	     /* the module at which the budget ran out; 0: it sufficed */
	/* Does the process have an auditor (LD_AUDIT)? `knows_audited`: `audited` is known. */
	bool knows_audited, audited;
};

struct relocs;

HT_MUST_CHECK
struct ht_err *scope_init(
	const struct proc *proc, const struct modules *modules, struct scope *ret);
void scope_deinit(struct scope *scope);

/* `module` is one of the scope's, here and below. The scope owns the result. */
HT_MUST_CHECK
struct ht_err *scope_dynamic(
	struct scope *scope, const struct module *module, const struct dynamic **ret);
/* As relocs_read, with the scope's budget. */
HT_MUST_CHECK
struct ht_err *scope_relocs(struct scope *scope, const struct module *module, struct relocs *ret);
/* `name`: a number of names.h. The scope owns the result. */
HT_MUST_CHECK
struct ht_err *scope_name(struct scope *scope, const struct module *module, uint32_t name,
	const struct scope_name **ret);
/* As module_symbol. */
HT_MUST_CHECK
struct ht_err *scope_symbol(
	struct scope *scope, const struct module *module, const char *name, raddr_t *ret);
/* The module's own malloc_usable_size; 0: none. */
HT_MUST_CHECK
struct ht_err *scope_usable_size(struct scope *scope, const struct module *module, raddr_t *ret);

/* `*ret` is the function that the dynamic linker would bind a reference of `module` to, if that is
 * certain: the only definition in its namespace, or, for a module loaded with the program, the
 * first in load order with the version of the reference. 0 otherwise: a library loaded later may
 * prefer its own definition (RTLD_DEEPBIND), an auditor (LD_AUDIT) may bind any name to a function
 * of its own, and binding to another allocator would mix their blocks. `symbol`: index of the
 * reference in the module's symbol table; 0: unknown, and so is its version. */
HT_MUST_CHECK
struct ht_err *scope_bind(struct scope *scope, const struct module *module, uint32_t name,
	uint32_t symbol, raddr_t *ret);
