/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a trace as one self-contained HTML file: the page of analyzer/page/ with the cube's tables
 * embedded.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "analyzer/views/suspects.h"
#include "analyzer/views/view.h"
#include "format/bytes.h"

#define PAGE_BYTES_MAX (5u << 20)

struct page_result {
	uint64_t bytes;	       /* of the page; page_write_data: of the data */
	uint32_t folded, kept; /* number of nodes folded to meet the limit, and of the others */
	uint64_t least_bytes;  /* least allocated bytes of a node that was not folded */
};

/* Optional parts of the page; members are borrowed, NULL: absent. */
struct page_more {
	json_t *diff;	 /* page_diff_json */
	json_t *sources; /* page_sources_json */
};

/* False if this program was built without libjs-dygraphs: it has no page. */
bool page_is_built(void);
/* Writes the page of a view of the whole window, at most `bytes_max` bytes. Folds the nodes that
 * allocated least into their callers until the page fits; HT_ERR_FORMAT if it cannot. */
HT_MUST_CHECK
struct ht_err *page_write(FILE *out, const struct view *view, const struct page_more *more,
	uint64_t bytes_max, struct page_result *ret);

/* Writes only the tables and facts, uncompressed, for a page that loads them from a server. Folds
 * as page_write, but has no error if they do not fit. */
HT_MUST_CHECK
struct ht_err *page_write_data(FILE *out, const struct view *view, const struct page_more *more,
	uint64_t bytes_max, struct page_result *ret);
/* The page without data, which loads it from a server, and its Content-Security-Policy header; both
 * malloc'd. `is_live`: the page also follows a running capture. */
HT_MUST_CHECK
struct ht_err *page_for_server(bool is_live, char **ret_page, char **ret_policy);

/* Appends the page's tables and facts, uncompressed, as decode.js reads them. `out` must be empty;
 * the caller deinitialises it, also after an error. Sets all of `ret` but `bytes`. */
HT_MUST_CHECK
struct ht_err *page_data(struct bytes_out *out, const struct view *view,
	const struct suspects *suspects, const struct page_more *more, uint64_t least_bytes,
	struct page_result *ret);
