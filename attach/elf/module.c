/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/module.h"

#include <stdlib.h>

void module_deinit(struct module *module)
{
	free(module->path);
	natives_deinit(&module->natives);
}

void modules_deinit(struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		module_deinit(&modules->module[i]);
	free(modules->module);
	*modules = (struct modules){0};
}

const struct module *modules_find(const struct modules *modules, raddr_t addr)
{
	size_t lo = 0, hi = modules->count;
	while (lo < hi) {
		size_t middle = lo + (hi - lo) / 2;
		const struct module *module = &modules->module[middle];
		if (addr < module->lo)
			hi = middle;
		else if (addr >= module->hi)
			lo = middle + 1;
		else
			return module;
	}
	return NULL;
}

bool modules_are_static(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->module[i].interpreter)
			return false;
	return true;
}

bool module_is_strange(const struct modules *modules, const struct module *module)
{
	return !module->executable && !module->vdso && !module->order &&
	       module->text_lo < module->text_hi && modules_are_static(modules);
}

const struct module *modules_strange(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (module_is_strange(modules, &modules->module[i]))
			return &modules->module[i];
	return NULL;
}
