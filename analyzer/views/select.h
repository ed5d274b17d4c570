/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sites of the cube a query is about: by the functions and modules of their stacks, and by
 * their threads.
 */
#pragma once

#include "analyzer/query/query.h"
#include "analyzer/views/frames.h"

/* `ret`: by site of the cube, whether it is in; freed by the caller. */
HT_MUST_CHECK
struct ht_err *select_sites(const struct analysis *analysis, const struct frames *frames,
	const struct query *query, bool **ret);
