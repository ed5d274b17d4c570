/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/pool.h"

#include <stdlib.h>
#include <string.h>

#include "format/array.h"

void pool_deinit(struct pool *pool)
{
	strings_deinit(&pool->strings);
	map_deinit(&pool->by_text);
	free(pool->text);
	*pool = (struct pool){0};
}

struct ht_err *pool_number(struct pool *pool, const char *text, uint32_t *ret)
{
	const struct rec_string string = {.data = text, .length = strlen(text)};
	const char *kept;
	struct ht_err *err = strings_intern(&pool->strings, string, &kept);
	if (err || map_get(&pool->by_text, (uintptr_t)kept, ret))
		return err;
	HT_TRY(ARRAY_RESERVE(pool->text, pool->capacity, pool->count + 1, "names"));
	*ret = (uint32_t)pool->count;
	pool->text[pool->count++] = kept;
	return map_put(&pool->by_text, (uintptr_t)kept, *ret);
}
