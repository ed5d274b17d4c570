/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/linkmap.h"

#include <link.h>

#include "attach/memory/memory.h"

#define SPACES_MAX 64u
#define LINKS_MAX  20000u
#define EXTENDED   2 /* r_version that has r_next (glibc 2.35) */

/* struct r_debug_extended of newer headers. */
struct debug_head {
	struct r_debug base;
	uint64_t next;
};

static bool read_some(const struct proc *proc, raddr_t addr, void *ret, size_t bytes)
{
	size_t got = 0;
	return !ht_err_drop(addr ? memory_read_some(proc, addr, ret, bytes, &got) : NULL) &&
	       got == bytes;
}

static raddr_t debug_of(const struct proc *proc, const struct module *module)
{
	for (uint64_t off = 0; off + sizeof(Elf64_Dyn) <= module->dynamic_bytes;
		off += sizeof(Elf64_Dyn)) {
		Elf64_Dyn dyn;
		if (!read_some(proc, module->dynamic + off, &dyn, sizeof(dyn)) ||
			dyn.d_tag == DT_NULL)
			return 0;
		if (dyn.d_tag == DT_DEBUG)
			return dyn.d_un.d_ptr;
	}
	return 0;
}

/* Reads the head's address from the executable, or from the program that a dynamic linker was
 * started with. A static program has a list of its own, or none: a list in another module belongs
 * to a program that it emulates. */
raddr_t linkmap_head(const struct proc *proc, const struct modules *modules)
{
	raddr_t found = 0;
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		raddr_t head = module->dynamic ? debug_of(proc, module) : 0;
		if (module->executable && modules_are_static(modules))
			return head ? head : module->natives.debug;
		if (head && module->executable)
			return head;
		found = head ? head : found;
	}
	return modules_are_static(modules) ? 0 : found;
}

static raddr_t next_head(const struct proc *proc, raddr_t head)
{
	struct debug_head debug;
	if (!read_some(proc, head, &debug.base, sizeof(debug.base)) ||
		debug.base.r_version < EXTENDED ||
		!read_some(proc, head + offsetof(struct debug_head, next), &debug.next,
			sizeof(debug.next)))
		return 0;
	return debug.next;
}

void linkmap_walk(const struct proc *proc, raddr_t head,
	void (*visit)(void *context, unsigned space, raddr_t head, raddr_t link, raddr_t dynamic),
	void *context)
{
	unsigned links = 0;
	for (unsigned space = 0; head && space < SPACES_MAX; space++) {
		struct r_debug debug;
		struct link_map map;
		visit(context, space, head, 0, 0);
		if (!read_some(proc, head, &debug, sizeof(debug)))
			return;
		raddr_t at = (raddr_t)(uintptr_t)debug.r_map;
		for (; links < LINKS_MAX && read_some(proc, at, &map, sizeof(map)); links++) {
			visit(context, space, head, at, (raddr_t)(uintptr_t)map.l_ld);
			at = (raddr_t)(uintptr_t)map.l_next;
		}
		head = next_head(proc, head);
	}
}

bool linkmap_head_grew(const struct proc *proc, raddr_t head)
{
	return next_head(proc, head) != 0;
}

bool linkmap_link_grew(const struct proc *proc, raddr_t link)
{
	struct link_map map;
	return read_some(proc, link, &map, sizeof(map)) && map.l_next;
}

struct placing {
	struct modules *modules;
	unsigned space;
	uint32_t order;
};

static void place(void *context, unsigned space, raddr_t head, raddr_t link, raddr_t dynamic)
{
	struct placing *placing = context;
	(void)head;
	if (space != placing->space)
		placing->order = 0;
	placing->space = space;
	if (!link)
		return;
	placing->order++;
	const struct module *found = modules_find(placing->modules, dynamic);
	if (!found || found->dynamic != dynamic || found->order)
		return; /* the dynamic linker is in every list */
	struct module *module = &placing->modules->module[found - placing->modules->module];
	module->space = space;
	module->order = placing->order;
}

void linkmap_apply(const struct proc *proc, struct modules *modules)
{
	struct placing placing = {.modules = modules};
	uint32_t last = 0;
	linkmap_walk(proc, linkmap_head(proc, modules), place, &placing);
	/* The dynamic linker is among the modules loaded first; later ones follow it. */
	for (size_t i = 0; i < modules->count; i++)
		if (modules->module[i].interpreter)
			last = modules->module[i].order;
	for (size_t i = 0; i < modules->count; i++) {
		struct module *module = &modules->module[i];
		module->initial = module->executable || module->interpreter ||
				  (module->space == 0 && module->order && module->order <= last);
	}
}
