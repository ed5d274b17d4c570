/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/natives.h"

#include <stdlib.h>
#include <string.h>

bool natives_need(const struct natives *natives, const char *name)
{
	for (size_t i = 0; i < natives->need_count; i++)
		if (!strcmp(natives->need[i], name))
			return true;
	return false;
}

struct natives natives_share(const struct natives *natives)
{
	if (natives->owners)
		++*natives->owners;
	return *natives;
}

void natives_deinit(struct natives *natives)
{
	struct natives last = *natives;
	*natives = (struct natives){0};
	if (last.owners && --*last.owners)
		return;
	for (size_t i = 0; i < last.count; i++)
		free(last.native[i].name);
	for (size_t i = 0; i < last.need_count; i++)
		free(last.need[i]);
	free(last.need);
	free(last.native);
	free(last.word);
	free(last.owners);
}

static int compare(const void *key, const void *element)
{
	raddr_t addr = *(const raddr_t *)key;
	const struct native *native = element;
	return (addr > native->addr) - (addr < native->addr);
}

const struct native *natives_find(const struct natives *natives, raddr_t addr)
{
	return natives->count ? bsearch(&addr, natives->native, natives->count,
					sizeof(*natives->native), compare)
			      : NULL;
}
