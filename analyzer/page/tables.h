/* SPDX-License-Identifier: Apache-2.0
 *
 * The cube's tables for the page. Sites that look the same on the page are joined, so that the
 * tables are small. For any window they give the same sums as cube/window.h.
 */
#pragma once

#include "analyzer/page/fold.h"

struct page_site {
	uint32_t node; /* node of the page */
	uint32_t key;  /* thread, hook and size class, as in struct cube_site */
	uint64_t peak_bytes;
	/* of its allocations in the trace; 0 if the capture is not a sample */
	struct sample_variance variance;
};

/* Sites are sorted by node and key; the other tables by site, then by bucket (survivors: birth,
 * death). */
struct page_tables {
	struct page_site *site;
	struct cube_cell *cell; /* `site` is an index of the sites above */
	struct cube_survivor *survivor;
	size_t site_count, cell_count, survivor_count;
};

/* Builds the tables of a view of the whole window. */
HT_MUST_CHECK
struct ht_err *page_tables_init(
	struct page_tables *tables, const struct view *view, const struct fold *fold);
void page_tables_deinit(struct page_tables *tables);
