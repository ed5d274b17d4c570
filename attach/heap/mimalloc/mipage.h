/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a page of mimalloc's (3.x), as its map names it.
 */
#pragma once

#include "attach/heap/mimalloc/miwalk.h"

/* How pages are described. */
enum mimap_form {
	MIMAP_START,  /* 3.0 to 3.3: with the address of their first block */
	MIMAP_OFFSET, /* as of 3.4: with its distance */
	MIMAP_FORMS,
};

/* Words that name a page of one block, if it has more slices. */
#define MIMAP_RUN_MAX 63u

/* A page by the map alone: what is named by words that follow each other. */
struct mimap_run {
	raddr_t word, word_end; /* the first, and where that part of the map ends */
	raddr_t page;		/* what is known of it */
	raddr_t addr;
	uint64_t slices;
};

/* Does the page at `run->page` agree with the map, in one of `*forms`? Takes the others out of it
 *. */
bool mipage_read(
	struct view *view, const struct mimap_run *run, unsigned *forms, struct miwalk_page *ret);
/* Counts the blocks that other threads have freed; false: the list was changed meanwhile, or is
 * none. */
bool mipage_count_freed(struct view *view, uint64_t reserve, const struct mimap_run *run,
	unsigned forms, struct miwalk_page *page);
