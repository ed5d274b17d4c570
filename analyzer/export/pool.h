/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers distinct strings from 0 in the order of their first use, for formats that refer to names
 * by number.
 */
#pragma once

#include "format/map.h"
#include "analyzer/model/strings.h"

/* Zero-initialised is empty and valid. */
struct pool {
	struct strings strings;
	struct map by_text; /* by address in `strings` */
	const char **text;  /* by number; valid until the pool is released */
	size_t count, capacity;
};

void pool_deinit(struct pool *pool);
/* The number of `text`, which is copied at its first use. */
HT_MUST_CHECK
struct ht_err *pool_number(struct pool *pool, const char *text, uint32_t *ret);
