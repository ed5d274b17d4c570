/* SPDX-License-Identifier: Apache-2.0
 *
 * What the names of hooked functions mean in the dynamic symbol tables of the loaded modules, and
 * what the dynamic linker would bind one to. Each is looked up once.
 */
#pragma once

#include "attach/elf/dynamic.h"
#include "format/abi_hooks.h"

struct scope_name {
	bool known;
	size_t count;
	Elf64_Sym symbol[DYNAMIC_VERSIONS_MAX];
	uint32_t index[DYNAMIC_VERSIONS_MAX]; /* of each in the module's symbol table */
};

struct scope {
	const struct proc *proc;
	const struct modules *modules;
	struct scope_tables *tables; /* one for each module */
	struct budget budget;	     /* of all that is read here */
	uint64_t partial_id;	     /* the module at which it was spent; 0: it suffices */
	bool knows_audited, audited;
};

struct relocs;

HT_MUST_CHECK
struct ht_err *scope_init(
	const struct proc *proc, const struct modules *modules, struct scope *ret);
void scope_deinit(struct scope *scope);

/* `module` is one of the scope's; the results belong to the scope. */
HT_MUST_CHECK
struct ht_err *scope_dynamic(
	struct scope *scope, const struct module *module, const struct dynamic **ret);
HT_MUST_CHECK
struct ht_err *scope_relocs(struct scope *scope, const struct module *module, struct relocs *ret);
/* `name`: by number (relocs.h). */
HT_MUST_CHECK
struct ht_err *scope_name(struct scope *scope, const struct module *module, uint32_t name,
	const struct scope_name **ret);
/* As module_symbol. */
HT_MUST_CHECK
struct ht_err *scope_symbol(
	struct scope *scope, const struct module *module, const char *name, raddr_t *ret);
/* The module's own malloc_usable_size; 0: it has none. */
HT_MUST_CHECK
struct ht_err *scope_usable_size(struct scope *scope, const struct module *module, raddr_t *ret);

/*
 * The function that the dynamic linker would bind a reference of `module` to, when that is certain:
 * the only one in its namespace; or, for a module that was loaded with the program, whose names are
 * looked up in load order, the first one of the version that the reference asks for. 0 otherwise: a
 * library loaded later may prefer its own (RTLD_DEEPBIND); to bind to another allocator would mix
 * their blocks. And an auditor (LD_AUDIT) may bind any name to a function of its own.
 * `symbol`: of the reference, in the module's symbol table; 0: unknown, and so is its version.
 */
HT_MUST_CHECK
struct ht_err *scope_bind(struct scope *scope, const struct module *module, uint32_t name,
	uint32_t symbol, raddr_t *ret);
