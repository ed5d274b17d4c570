/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold/linker.h"

#include <link.h>
#include <stddef.h>

#include "attach/elf/dynamic.h"
#include "attach/elf/headers.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/proc_living.h"

/* Address of the dynamic linker's ELF header; 0: none. A dynamic linker that was started as a
 * program has no other. */
static raddr_t find_header(const struct proc_maps *maps, const struct proc_auxv *auxv)
{
	if (auxv->base)
		return auxv->base;
	const struct proc_map *entry = proc_maps_find(maps, auxv->entry);
	for (size_t i = 0; entry && i < maps->count; i++)
		if (maps->map[i].inode == entry->inode && maps->map[i].offset == 0)
			return maps->map[i].lo;
	return 0;
}

/* Only glibc exports a symbol for its list. */
static struct ht_err *find_state(const struct proc *proc, struct linker *linker)
{
	struct dynamic dynamic;
	Elf64_Sym symbol[DYNAMIC_VERSIONS_MAX];
	size_t count = 0;
	HT_TRY(dynamic_read(proc, &linker->module, &dynamic));
	HT_TRY(dynamic_lookup(proc, &dynamic, "_r_debug", NULL, symbol, NULL, &count));
	if (count)
		linker->state = linker->module.bias + symbol[0].st_value +
				offsetof(struct r_debug, r_state);
	return NULL;
}

struct ht_err *linker_find(
	const struct proc *proc, const struct proc_maps *maps, struct linker *ret)
{
	struct proc_auxv auxv;
	*ret = (struct linker){0};
	struct ht_err *err = proc_auxv_read(proc, &auxv);
	raddr_t header = err ? 0 : find_header(maps, &auxv);
	if (!err && header)
		err = headers_read(proc, header, &ret->module, &ret->found);
	if (err || !ret->found)
		return err;
	ret->entry = auxv.base ? auxv.entry : 0;
	return find_state(proc, ret);
}
