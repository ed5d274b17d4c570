/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sites of the cube a query is about: by the functions and modules of their stacks, and by
 * their threads.
 */
#pragma once

#include "analyzer/query/query.h"
#include "analyzer/views/frames.h"

struct select;

/* Everything is borrowed. */
HT_MUST_CHECK
struct ht_err *select_create(const struct analysis *analysis, const struct frames *frames,
	const struct query *query, struct select **ret);
void select_destroy(struct select *select);
/* Whether blocks of this stack (its leaf node, 0: none, CUBE_OTHER) and thread (its index) are in.
 */
bool select_has(const struct select *select, uint32_t node, uint32_t thread);

/* `ret`: by site of the cube, whether it is in; freed by the caller. */
HT_MUST_CHECK
struct ht_err *select_sites(const struct analysis *analysis, const struct frames *frames,
	const struct query *query, bool **ret);
