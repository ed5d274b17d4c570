/* SPDX-License-Identifier: Apache-2.0
 *
 * mimalloc's map of its pages (its 3.x): a word for each 64 KiB of addresses names the page that
 * has them, in two levels, the first a variable without an exported name. It proves itself: a page
 * says where its blocks begin, how many there are, of which size, and whose memory that is, and
 * this must be what the map says. All pages are in it, whichever thread has them.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/heap/miwalk.h"

/* How pages are described. */
enum mimap_form {
	MIMAP_START,  /* 3.0 to 3.3: with the address of their first block */
	MIMAP_OFFSET, /* as of 3.4: with its distance */
	MIMAP_FORMS,
};

/* Words that name a page of one block, if it has more slices. */
#define MIMAP_RUN_MAX 63u

struct mimap {
	raddr_t root;
	uint64_t entries; /* of the root, each for 512 MiB */
	unsigned forms;	  /* that its pages can be of, a bit each */
};

/* A page by the map alone: what is named by words that follow each other. */
struct mimap_run {
	raddr_t word, word_end; /* the first, and where that part of the map ends */
	raddr_t page;		/* what is known of it */
	raddr_t addr;
	uint64_t slices;
};

/* Among the module's variables; `*ret_count` gets how many there are. One that has no page yet is
 * none. `walk` as for mimap_walk; what is in it then means nothing. */
HT_MUST_CHECK
struct ht_err *mimap_find(struct view *view, const struct module *module, struct miwalk *walk,
	struct mimap *ret, size_t *ret_count);
/* As miwalk_walk: `ret` is zero-initialised, or of a walk before. */
HT_MUST_CHECK
struct ht_err *mimap_walk(struct view *view, const struct mimap *map, struct miwalk *ret);
/* Does the page at `run->page` agree with the map, in one of `*forms`? Takes the others out of it
 * (mipage.c). */
bool mipage_read(
	struct view *view, const struct mimap_run *run, unsigned *forms, struct miwalk_page *ret);
/* Counts the blocks that other threads have freed; false: the list was changed meanwhile, or is
 * none. */
bool mipage_count_freed(struct view *view, uint64_t reserve, const struct mimap_run *run,
	unsigned forms, struct miwalk_page *page);
