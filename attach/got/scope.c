/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/got/scope.h"

#include <stdlib.h>

#include "attach/elf/modules.h"
#include "attach/elf/version.h"
#include "attach/got/relocs.h"

/* A thousand modules need a million steps, and the tables of the largest a few dozen megabytes. */
#define STEPS_MAX   (1u << 22)
#define TABLE_BYTES (1ul << 30)

struct scope_tables {
	bool known, knows_usable_size;
	raddr_t usable_size;
	struct dynamic dynamic;
	struct scope_name name[TAP_NAMES_MAX];
};

struct ht_err *scope_init(const struct proc *proc, const struct modules *modules, struct scope *ret)
{
	*ret = (struct scope){.proc = proc,
		.modules = modules,
		.budget = {.bytes = TABLE_BYTES, .steps = STEPS_MAX},
		.tables = calloc(modules->count ? modules->count : 1, sizeof(*ret->tables))};
	return ret->tables ? NULL
			   : ht_err_new(HT_ERR_NOMEM, "no memory for the symbols of process %d",
				     proc->pid);
}

void scope_deinit(struct scope *scope)
{
	free(scope->tables);
	scope->tables = NULL;
}

static struct ht_err *tables_of(
	struct scope *scope, const struct module *module, struct scope_tables **ret)
{
	struct scope_tables *tables = &scope->tables[module - scope->modules->module];
	*ret = tables;
	if (tables->known)
		return NULL;
	tables->known = true;
	return dynamic_read(scope->proc, module, &tables->dynamic);
}

struct ht_err *scope_dynamic(
	struct scope *scope, const struct module *module, const struct dynamic **ret)
{
	struct scope_tables *tables;
	struct ht_err *err = tables_of(scope, module, &tables);
	*ret = &tables->dynamic;
	return err;
}

static void note_budget(struct scope *scope, const struct module *module)
{
	if (scope->budget.spent && !scope->partial_id)
		scope->partial_id = module->id;
}

struct ht_err *scope_relocs(struct scope *scope, const struct module *module, struct relocs *ret)
{
	struct scope_tables *tables;
	*ret = (struct relocs){0};
	struct ht_err *err = tables_of(scope, module, &tables);
	HT_THEN(err, relocs_read(scope->proc, module, &tables->dynamic, &scope->budget, ret));
	note_budget(scope, module);
	return err;
}

struct ht_err *scope_symbol(
	struct scope *scope, const struct module *module, const char *name, raddr_t *ret)
{
	struct ht_err *err = module_symbol(scope->proc, module, name, &scope->budget, ret);
	note_budget(scope, module);
	return err;
}

struct ht_err *scope_usable_size(struct scope *scope, const struct module *module, raddr_t *ret)
{
	struct scope_tables *tables = &scope->tables[module - scope->modules->module];
	struct ht_err *err = NULL;
	if (!tables->knows_usable_size)
		err = scope_symbol(scope, module, "malloc_usable_size", &tables->usable_size);
	tables->knows_usable_size = true;
	*ret = tables->usable_size;
	return err;
}

struct ht_err *scope_name(struct scope *scope, const struct module *module, uint32_t number,
	const struct scope_name **ret)
{
	struct scope_tables *tables;
	struct ht_err *err = tables_of(scope, module, &tables);
	struct scope_name *name = &tables->name[number];
	*ret = name;
	if (err || name->known)
		return err;
	name->known = true;
	err = dynamic_lookup(scope->proc, &tables->dynamic, tap_name(number), &scope->budget,
		name->symbol, name->index, &name->count);
	note_budget(scope, module);
	return err;
}

static bool is_defined(const struct scope_name *name)
{
	for (size_t i = 0; i < name->count; i++)
		if (name->symbol[i].st_shndx != SHN_UNDEF)
			return true;
	return false;
}

/* If so, the module's own references are bound to it. */
static bool is_protected(const struct scope_name *name)
{
	for (size_t i = 0; i < name->count; i++)
		if (ELF64_ST_VISIBILITY(name->symbol[i].st_other) != STV_DEFAULT)
			return true;
	return false;
}

/* The address of the definition; 0: uncertain. */
static raddr_t definition_address(const struct module *module, const Elf64_Sym *symbol)
{
	raddr_t addr = module->bias + symbol->st_value;
	bool is_function = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC;
	return is_function && addr >= module->text_lo && addr < module->text_hi ? addr : 0;
}

/* Returns 0 if there are definitions at several addresses, or an indirect one (STT_GNU_IFUNC). */
static raddr_t address_of(const struct module *module, const struct scope_name *name)
{
	raddr_t found = 0;
	for (size_t i = 0; i < name->count; i++) {
		const Elf64_Sym *symbol = &name->symbol[i];
		raddr_t addr = definition_address(module, symbol);
		if (symbol->st_shndx == SHN_UNDEF)
			continue;
		if (!addr || (found && found != addr))
			return 0;
		found = addr;
	}
	return found;
}

/* May `from` use the definition of `module` at all? glibc's dynamic linker defines allocator
 * functions that the C library's replace. */
static bool in_sight(const struct module *from, const struct module *module)
{
	return module->space == from->space && !module->order == !from->order &&
	       !module->interpreter && !module->vdso;
}

/* An auditor has a namespace of its own, and decides each binding. */
static struct ht_err *is_audited(struct scope *scope, bool *ret)
{
	struct ht_err *err = NULL;
	raddr_t asked = 0;

	for (size_t i = 0; !err && !asked && !scope->knows_audited && i < scope->modules->count;
		i++)
		if (scope->modules->module[i].space)
			err = scope_symbol(
				scope, &scope->modules->module[i], "la_symbind64", &asked);
	scope->audited |= asked != 0;
	scope->knows_audited |= !err;
	*ret = scope->audited;
	return err;
}

/* The definitions of a name that one module sees. */
struct definitions {
	const struct module *first;
	size_t count, with_versions;
};

static struct ht_err *find_definitions(
	struct scope *scope, const struct module *module, uint32_t number, struct definitions *ret)
{
	*ret = (struct definitions){0};
	for (size_t i = 0; i < scope->modules->count; i++) {
		const struct module *other = &scope->modules->module[i];
		const struct scope_name *name;
		if (!in_sight(module, other))
			continue;
		HT_TRY(scope_name(scope, other, number, &name));
		if (!is_defined(name))
			continue;
		const struct dynamic *dynamic = &scope->tables[i].dynamic;
		ret->count++;
		ret->with_versions += dynamic->has_versions;
		if (!ret->first || other->order < ret->first->order)
			ret->first = other;
	}
	return NULL;
}

/* Is the first definition certain for every reference? One without versions suits all references;
 * one with versions suits those that do not name another library's version. */
static bool is_first_certain(const struct scope *scope, const struct definitions *found)
{
	const struct dynamic *first = &scope->tables[found->first - scope->modules->module].dynamic;
	return found->first->initial && (!first->has_versions || found->with_versions == 1);
}

/* Does the module define the name for this reference? `*ret_addr` is 0 if it does or may, at an
 * uncertain address. */
static struct ht_err *is_taken_from(struct scope *scope, const struct module *module,
	uint32_t number, const struct version *wanted, bool *ret_taken, raddr_t *ret_addr)
{
	const struct scope_name *name;
	const struct dynamic *dynamic;
	struct ht_err *err = scope_dynamic(scope, module, &dynamic);
	*ret_taken = false;
	*ret_addr = 0;
	HT_THEN(err, scope_name(scope, module, number, &name));
	for (size_t i = 0; !err && !*ret_taken && i < name->count; i++) {
		struct version defined;
		if (name->symbol[i].st_shndx == SHN_UNDEF)
			continue;
		HT_TRY(version_read(
			scope->proc, dynamic, name->index[i], &scope->budget, &defined));
		enum version_match match = version_match(wanted, &defined);
		*ret_taken = match != VERSION_OTHER;
		if (match == VERSION_SAME)
			*ret_addr = definition_address(module, &name->symbol[i]);
	}
	return err;
}

/* The next module after `order` in load order that `from` looks into; NULL: none. */
static const struct module *module_behind(
	const struct scope *scope, const struct module *from, uint32_t order)
{
	const struct module *found = NULL;
	for (size_t i = 0; i < scope->modules->count; i++) {
		const struct module *module = &scope->modules->module[i];
		if (in_sight(from, module) && module->order > order &&
			(!found || module->order < found->order))
			found = module;
	}
	return found;
}

/* As the dynamic linker: looks through the modules in load order for a definition with the
 * requested version. */
static struct ht_err *bind_by_version(struct scope *scope, const struct module *from,
	uint32_t number, uint32_t symbol, raddr_t *ret)
{
	struct version wanted;
	const struct dynamic *own;
	bool is_taken = false;
	uint32_t order = 0;
	struct ht_err *err = scope_dynamic(scope, from, &own);
	HT_THEN(err, version_read(scope->proc, own, symbol, &scope->budget, &wanted));
	while (!err && !is_taken) {
		const struct module *module = module_behind(scope, from, order);
		if (!module || !module->initial)
			break;
		order = module->order;
		err = is_taken_from(scope, module, number, &wanted, &is_taken, ret);
	}
	if (err || scope->budget.spent)
		*ret = 0;
	return err;
}

struct ht_err *scope_bind(struct scope *scope, const struct module *module, uint32_t number,
	uint32_t symbol, raddr_t *ret)
{
	struct definitions found;
	const struct scope_name *name;
	bool audited;

	*ret = 0;
	struct ht_err *err = is_audited(scope, &audited);
	if (err || audited)
		return err;
	err = find_definitions(scope, module, number, &found);
	if (err || !found.first)
		return err;
	const struct module *first = found.first;
	HT_TRY(scope_name(scope, module, number, &name));
	const struct dynamic *own = &scope->tables[module - scope->modules->module].dynamic;
	bool own_first =
		first != module && is_defined(name) && (own->symbolic || is_protected(name));
	bool in_order = module->initial && module->order && !own_first;
	if (found.count > 1 && !(in_order && is_first_certain(scope, &found)))
		return in_order && symbol ? bind_by_version(scope, module, number, symbol, ret)
					  : NULL;
	HT_TRY(scope_name(scope, first, number, &name));
	*ret = address_of(first, name);
	return NULL;
}
