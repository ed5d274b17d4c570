/* SPDX-License-Identifier: Apache-2.0
 *
 * Source text for the page: the lines that have figures, with their context.
 */
#pragma once

#include <jansson.h>

#include "analyzer/symbols/source.h"
#include "analyzer/views/view.h"

#define PAGE_SOURCES_BYTES_MAX (1u << 20) /* bytes of text of all files together */

struct page_sources_result {
	uint32_t files;	  /* files with text */
	uint32_t left;	  /* files left out because of the limit */
	uint32_t missing; /* files that were not found, or cannot be shown */
};

/* An array of files, sorted by the bytes that their largest line allocated, callees included, most
 * first: {path, lines: [[number, text]...], problem, is_newer}. `problem` says why the text is
 * missing, or is null. Stops at `bytes_max` bytes of text. The caller releases `*ret`. */
HT_MUST_CHECK
struct ht_err *page_sources_json(const struct view *view, const struct source_places *places,
	size_t bytes_max, json_t **ret, struct page_sources_result *ret_result);
