/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace as one HTML file that needs nothing else: the page of analyzer/page/ with the tables of
 * the cube in it.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "analyzer/views/suspects.h"
#include "analyzer/views/view.h"
#include "format/bytes.h"

#define PAGE_BYTES_MAX (5u << 20)

struct page_result {
	uint64_t bytes;
	uint32_t folded, kept; /* nodes that were folded to meet the bound, and the others */
	uint64_t least_bytes;  /* what a node has allocated that was not folded */
};

/* What the page has beside one trace; members are borrowed, NULL: not there. */
struct page_more {
	json_t *diff;	 /* page_diff_json */
	json_t *sources; /* page_sources_json */
};

/* False where libjs-dygraphs was missing when this program was built: there is no page. */
bool page_is_built(void);
/* Writes the page of a view of the whole window, at most `bytes_max` bytes: the nodes that
 * allocated least become part of their callers until it is small enough; an error where that does
 * not help. */
HT_MUST_CHECK
struct ht_err *page_write(FILE *out, const struct view *view, const struct page_more *more,
	uint64_t bytes_max, struct page_result *ret);

/* The tables and facts alone, not compressed, for a page that asks a server for them. Folds as
 * page_write does, but is written anyhow. */
HT_MUST_CHECK
struct ht_err *page_write_data(FILE *out, const struct view *view, const struct page_more *more,
	uint64_t bytes_max, struct page_result *ret);
/* The page without data, which asks a server for it, and its Content-Security-Policy as a header
 * has it; both malloc'd. `is_live`: it also listens how a capture goes on. */
HT_MUST_CHECK
struct ht_err *page_for_server(bool is_live, char **ret_page, char **ret_policy);

/* The tables and facts of the page, not compressed: as model.js reads them. `out` is empty, and to
 * be deinitialised, also after an error. */
HT_MUST_CHECK
struct ht_err *page_data(struct bytes_out *out, const struct view *view,
	const struct suspects *suspects, const struct page_more *more, uint64_t least_bytes,
	struct page_result *ret);
