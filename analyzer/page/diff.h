/* SPDX-License-Identifier: Apache-2.0
 *
 * The comparison with an older trace (views/compare.h) as JSON for the page.
 */
#pragma once

#include <jansson.h>

#include "analyzer/views/compare.h"

/* For each metric the page lists this many sites with the largest figures, and as many with the
 * largest changes. The others are summed up. */
#define PAGE_DIFF_SITES 400u

/* The traces, names, call chains, and by metric each site's two figures, as heaptap diff prints
 * them, rounded to whole bytes or blocks. `compare` is of two views, the older first; `path` are
 * their files. Changes the order of the entries of `compare`. The caller releases `*ret`. */
HT_MUST_CHECK
struct ht_err *page_diff_json(struct compare *compare, const char *const path[2], json_t **ret);
