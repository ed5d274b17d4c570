/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings by number, from 0 in the order in which they are met, each once: tables of names in
 * formats that refer to them.
 */
#pragma once

#include "format/map.h"
#include "analyzer/model/strings.h"

/* Zero-initialised is empty and valid. */
struct pool {
	struct strings strings;
	struct map by_text; /* by address in `strings` */
	const char **text;  /* by number; valid as long as the pool is */
	size_t count, capacity;
};

void pool_deinit(struct pool *pool);
HT_MUST_CHECK
struct ht_err *pool_number(struct pool *pool, const char *text, uint32_t *ret);
