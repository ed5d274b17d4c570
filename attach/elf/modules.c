/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/modules.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "attach/elf/budget.h"
#include "attach/elf/dynamic.h"
#include "attach/elf/headers.h"
#include "attach/elf/linkmap.h"
#include "attach/elf/natives_read.h"
#include "attach/elf/startcode.h"
#include "attach/memory/proc_map.h"
#include "attach/proc/proc_living.h"
#include "format/arch.h"
#include "format/array.h"

/* A read of a device's mapping may have an effect. */
static bool is_device(const struct proc_map *map)
{
	return !strncmp(map->name, "/dev/", 5) && strncmp(map->name, "/dev/shm/", 9) != 0;
}

static bool may_hold_header(const struct proc_map *map)
{
	return map->read && map->offset == 0 && map->hi - map->lo >= sizeof(Elf64_Ehdr) &&
	       !is_device(map);
}

/* Is a program without an interpreter a dynamic linker that was started by hand? */
static bool named_like_linker(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	return !strncmp(name, "ld-", 3) || !strncmp(name, "ld.so", 5) ||
	       !strcmp(name, "libc.so"); /* musl's */
}

static bool holds(const struct module *module, raddr_t addr)
{
	return addr >= module->lo && addr < module->hi;
}

static void roles_set(struct module *module, const struct proc_auxv *auxv)
{
	module->executable = auxv->entry && holds(module, auxv->entry);
	module->vdso = auxv->vdso && holds(module, auxv->vdso);
	module->interpreter = auxv->base ? holds(module, auxv->base)
					 : module->executable && named_like_linker(module->path);
}

static bool same_image(const struct module *a, const struct module *b)
{
	return a->lo == b->lo && a->hi == b->hi && a->dev == b->dev && a->inode == b->inode &&
	       a->build_id_bytes == b->build_id_bytes &&
	       !memcmp(a->build_id, b->build_id, a->build_id_bytes);
}

/* Gives the module its id. Reads its file only the first time. */
static struct ht_err *identify(const struct proc *proc, const struct proc_map *map,
	const struct modules *old, struct budget *budget, uint64_t *next_id, struct module *module)
{
	const struct module *before = old ? modules_find(old, module->lo) : NULL;
	if (before && same_image(before, module)) {
		module->id = before->id;
		module->natives = natives_share(&before->natives);
		return NULL;
	}
	module->id = (*next_id)++;
	return natives_read(proc, map, module, budget, &module->natives);
}

static struct ht_err *append(struct modules *modules, size_t *capacity, const struct module *module)
{
	if (!ARRAY_HAS_ROOM(modules->module, modules->count, *capacity, 32))
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu modules", modules->count + 1);
	modules->module[modules->count++] = *module;
	return NULL;
}

static struct ht_err *collect(const struct proc *proc, const struct proc_maps *maps,
	const struct proc_auxv *auxv, const struct modules *old, struct modules *ret)
{
	struct budget budget = {.bytes = BUDGET_FILES_BYTES};
	size_t capacity = 0;
	raddr_t end = 0; /* of the last module: images do not overlap */
	for (size_t i = 0; i < maps->count; i++) {
		const struct proc_map *map = &maps->map[i];
		struct module module;
		bool valid;
		if (map->lo < end || !may_hold_header(map))
			continue;
		HT_TRY(headers_read(proc, map->lo, &module, &valid));
		if (!valid || module.lo < end || !headers_are_loaded(&module, maps, map))
			continue;
		module.dev = makedev(map->dev_major, map->dev_minor);
		module.inode = map->inode;
		module.path = strdup(map->name);
		if (!module.path)
			return ht_err_new(HT_ERR_NOMEM, "no memory for the modules");
		roles_set(&module, auxv);
		struct ht_err *err = identify(proc, map, old, &budget, &ret->next_id, &module);
		HT_THEN(err, append(ret, &capacity, &module));
		if (err) {
			module_deinit(&module);
			return err;
		}
		end = module.hi;
	}
	return NULL;
}

static struct ht_err *spent_find(
	const struct proc *proc, const struct modules *old, struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module *module = &modules->module[i];
		const struct startcode *start = &module->natives.start;
		const struct module *before = old ? modules_find(old, module->lo) : NULL;
		bool over = before && before->id == module->id && before->spent_bytes;
		if (!start->addr || !modules_are_static(modules))
			continue;
		if (!over)
			HT_TRY(startcode_is_over(proc, start, &over));
		if (!over)
			continue;
		module->spent = start->addr;
		module->spent_bytes = start->bytes;
	}
	return NULL;
}

struct ht_err *modules_reread(const struct proc *proc, const struct proc_maps *maps,
	const struct modules *old, struct modules *ret)
{
	struct proc_auxv auxv;
	*ret = (struct modules){.next_id = old ? old->next_id : 1};
	struct ht_err *err = proc_auxv_read(proc, &auxv);
	HT_THEN(err, collect(proc, maps, &auxv, old, ret));
	HT_THEN(err, spent_find(proc, old, ret));
	if (err)
		modules_deinit(ret);
	else
		linkmap_apply(proc, ret);
	return err;
}

struct ht_err *modules_read(
	const struct proc *proc, const struct proc_maps *maps, struct modules *ret)
{
	return modules_reread(proc, maps, NULL, ret);
}

struct ht_err *module_symbol(const struct proc *proc, const struct module *module, const char *name,
	struct budget *budget, raddr_t *ret)
{
	struct dynamic dynamic;
	Elf64_Sym symbol[DYNAMIC_VERSIONS_MAX];
	size_t count = 0;
	*ret = 0;
	struct ht_err *err = dynamic_read(proc, module, &dynamic);
	HT_THEN(err, dynamic_lookup(proc, &dynamic, name, budget, symbol, NULL, &count));
	for (size_t i = 0; i < count && !err && !*ret; i++)
		if (symbol[i].st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol[i].st_info) == STT_FUNC)
			*ret = module->bias + symbol[i].st_value;
	return err;
}

static bool has_header(const struct proc_map *map, const char *exe)
{
	return map->read && map->offset == 0 &&
	       (!strcmp(map->name, exe) || !strcmp(map->name, "[vdso]"));
}

struct ht_err *modules_check_machine(const struct proc *proc, const struct proc_maps *maps)
{
	HT_FREED char *exe = NULL;
	HT_TRY(proc_link(proc, "exe", &exe));
	for (size_t i = 0; i < maps->count; i++) {
		Elf64_Ehdr ehdr; /* both classes have the same fields up to e_machine */
		size_t got;
		if (!has_header(&maps->map[i], exe))
			continue;
		HT_TRY(memory_read_some(proc, maps->map[i].lo, &ehdr, sizeof(ehdr), &got));
		if (got < sizeof(ehdr) || memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0)
			continue;
		if (ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_machine != ARCH_ELF_MACHINE)
			return ht_err_new(HT_ERR_REFUSED,
				"process %d is not an x86-64 program (ELF class %d, machine %d): "
				"heaptap can only profile 64-bit x86 programs",
				proc->pid, ehdr.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32,
				ehdr.e_machine);
	}
	return NULL;
}
