/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the sites of the cube that a query selects by the functions and modules of their stacks,
 * and by their threads.
 */
#pragma once

#include "analyzer/query/query.h"
#include "analyzer/views/frames.h"

struct select;

/* All arguments are borrowed. */
HT_MUST_CHECK
struct ht_err *select_create(const struct analysis *analysis, const struct frames *frames,
	const struct query *query, struct select **ret);
void select_destroy(struct select *select);
/* Whether the query selects blocks of a stack and a thread. `node`: the stack's leaf node; 0: no
 * stack; or CUBE_OTHER. `thread`: its index. */
bool select_has(const struct select *select, uint32_t node, uint32_t thread);

/* `ret`: by site of the cube, whether the query selects it; freed by the caller. */
HT_MUST_CHECK
struct ht_err *select_sites(const struct analysis *analysis, const struct frames *frames,
	const struct query *query, bool **ret);
