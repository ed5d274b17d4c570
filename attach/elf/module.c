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

static int compare(const void *key, const void *element)
{
	raddr_t addr = *(const raddr_t *)key;
	const struct module *module = element;
	return addr < module->lo ? -1 : addr >= module->hi;
}

const struct module *modules_find(const struct modules *modules, raddr_t addr)
{
	return modules->count ? bsearch(&addr, modules->module, modules->count,
					sizeof(*modules->module), compare)
			      : NULL;
}

bool modules_are_static(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->module[i].interpreter)
			return false;
	return true;
}

bool module_is_foreign(const struct modules *modules, const struct module *module)
{
	return !module->executable && !module->vdso && !module->order &&
	       module->text_lo < module->text_hi && modules_are_static(modules);
}

const struct module *modules_first_foreign(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (module_is_foreign(modules, &modules->module[i]))
			return &modules->module[i];
	return NULL;
}
