/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of a page of mimalloc 3.x that the map names.
 */
#pragma once

#include "attach/heap/mimalloc/miwalk.h"

/* Layouts of a page's description. */
enum mimap_form {
	MIMAP_START,  /* 3.0 to 3.3: has the address of the first block */
	MIMAP_OFFSET, /* since 3.4: has its distance */
	MIMAP_FORMS,
};

/* Most words that name a page of one block, even if the page has more slices. */
#define MIMAP_RUN_MAX 63u

/* A page as the map has it: a run of words with the same page. */
struct mimap_run {
	raddr_t word, word_end; /* the first word, and the end of that part of the map */
	raddr_t page;		/* the page's description */
	raddr_t addr;
	uint64_t slices;
};

/* Does the description at `run->page` agree with the map in one of `*forms`? If so, removes the
 * other forms. */
bool mipage_read(
	struct view *view, const struct mimap_run *run, unsigned *forms, struct miwalk_page *ret);
/* As miwalk_count_freed: counts the blocks that other threads have freed. False: the list changed
 * meanwhile, or is no list. */
bool mipage_count_freed(struct view *view, uint64_t reserve, const struct mimap_run *run,
	unsigned forms, struct miwalk_page *page);
