/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/allocators/given.h"

#include <string.h>

static struct given_list used;
static uint32_t generation;

bool given_is_whole(const struct given_list *list)
{
	if (list->count > GIVEN_MAX)
		return false;
	for (uint32_t i = 0; i < list->count; i++) {
		const struct given *given = &list->given[i];
		if (given->hook >= ABI_HOOK_COUNT || !given->name[0] ||
			!memchr(given->name, '\0', sizeof(given->name)))
			return false;
	}
	return true;
}

void given_use(const struct given_list *list)
{
	used = *list;
	generation++;
}

uint32_t given_generation(void)
{
	return generation;
}

const struct given_list *given_used(void)
{
	return &used;
}

enum given_match given_match(const char *symbol, size_t *ret_index)
{
	for (uint32_t i = 0; i < used.count; i++) {
		const char *name = used.given[i].name;
		size_t length = strlen(name);
		if (symbol[0] != name[0] || strncmp(symbol, name, length) != 0)
			continue;
		*ret_index = i;
		if (!symbol[length])
			return GIVEN_FUNCTION;
		if (symbol[length] == '.')
			return strstr(symbol + length, ".cold") ? GIVEN_PART : GIVEN_CLONE;
	}
	return GIVEN_NONE;
}
