/* SPDX-License-Identifier: Apache-2.0 */
#include "format/cull/culled.h"

#define COUNT_SHIFT 4u

struct ht_err *culled_put(struct bytes_out *body, const struct culled_entry *entry)
{
	unsigned count = CULLED_NUMBERS_MAX;
	while (count && !entry->number[count - 1])
		count--;
	HT_TRY(bytes_out_u8(body, (uint8_t)(entry->kind | count << COUNT_SHIFT)));
	for (unsigned i = 0; i < count; i++)
		HT_TRY(bytes_out_uleb(body, entry->number[i]));
	return NULL;
}

bool culled_next(struct bytes *body, struct culled_entry *ret)
{
	uint8_t head;
	if (!bytes_u8(body, &head))
		return false;
	*ret = (struct culled_entry){.kind = head & 15u, .count = head >> COUNT_SHIFT};
	for (unsigned i = 0; i < ret->count; i++)
		if (!bytes_uleb(body, &ret->number[i]))
			return false;
	return true;
}
