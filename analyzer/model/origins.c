/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/origins.h"

#include <stdlib.h>

#include "format/array.h"
#include "analyzer/model/nodes.h"

void origins_deinit(struct origins *origins)
{
	free(origins->origin);
	free(origins->of_node.first);
	free(origins->of_plain.first);
	*origins = (struct origins){0};
}

static struct ht_err *add(struct origins *origins, struct origins_index *index, uint32_t at,
	struct origin origin, uint32_t *ret)
{
	if (origins->count == ORIGINS_MAX - 1)
		return ht_err_new(HT_ERR_FORMAT,
			"the trace has more than %u stacks by thread: it is damaged", ORIGINS_MAX);
	HT_TRY(ARRAY_RESERVE(index->first, index->capacity, (size_t)at + 1, "stack nodes"));
	HT_TRY(ARRAY_RESERVE(
		origins->origin, origins->capacity, origins->count + 1, "stacks by thread"));
	origin.next = index->first[at];
	origins->origin[origins->count] = origin;
	*ret = index->first[at] = (uint32_t)++origins->count;
	return NULL;
}

/* Moves the found origin to the front of its chain. */
static uint32_t find(struct origins *origins, uint32_t *first, uint32_t thread, uint8_t hook)
{
	for (uint32_t *link = first; *link; link = &origins->origin[*link - 1].next) {
		const uint32_t at = *link;
		struct origin *origin = &origins->origin[at - 1];
		if (origin->thread != thread || origin->hook != hook)
			continue;
		*link = origin->next;
		origin->next = *first;
		*first = at;
		return at;
	}
	return 0;
}

struct ht_err *origins_number(
	struct origins *origins, uint32_t stack, uint32_t thread, uint8_t hook, uint32_t *ret)
{
	struct origins_index *index = stack < NODES_MAX ? &origins->of_node : &origins->of_plain;
	const uint32_t at = stack % NODES_MAX;
	if (at < index->capacity) {
		*ret = find(origins, &index->first[at], thread, hook);
		if (*ret)
			return NULL;
	}
	const struct origin origin = {.stack = stack, .thread = thread, .hook = hook};
	return add(origins, index, at, origin, ret);
}
