/* SPDX-License-Identifier: Apache-2.0
 *
 * The page's data besides its tables, as JSON: target, capture, heap, RSS, marks, warnings,
 * suspects, and the names that the tables refer to.
 */
#pragma once

#include <jansson.h>

#include "analyzer/export/numbers.h"
#include "analyzer/page/fold.h"
#include "analyzer/page/page.h"
#include "analyzer/page/tables.h"

/* Distinct strings with numbers. Zero-initialised is empty and valid. */
struct page_names {
	json_t *array;
	struct map by_pointer; /* of interned strings: files and namespaces */
	uint32_t count;
};

/* The tables that the page's columns refer to by number; page_facts_deinit frees each array. */
struct page_facts {
	struct page_names names;
	struct numbers frames; /* frames of the page, by group of the view */
	/* By frame of the page: index of a name, + 1 for a file and a namespace; 0: none. */
	uint32_t *name, *file, *space;
	json_t *object;
};

HT_MUST_CHECK
struct ht_err *page_facts_init(struct page_facts *facts, const struct view *view,
	const struct fold *fold, const struct suspects *suspects, const struct page_more *more);
void page_facts_deinit(struct page_facts *facts);
