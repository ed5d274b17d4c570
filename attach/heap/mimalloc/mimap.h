/* SPDX-License-Identifier: Apache-2.0
 *
 * mimalloc's map of its pages (its 3.x): a word for each 64 KiB of addresses names the page that
 * has them, in two levels, the first a variable without an exported name. It proves itself: a page
 * says where its blocks begin, how many there are, of which size, and whose memory that is, and
 * this must be what the map says. All pages are in it, whichever thread has them.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/mimalloc/mipage.h"

struct mimap {
	raddr_t root;
	uint64_t entries; /* of the root, each for 512 MiB */
	unsigned forms;	  /* that its pages can be of, a bit each */
};

/* Among the module's variables; `*ret_count` gets how many there are. One that has no page yet is
 * none. `walk` as for mimap_walk; what is in it then means nothing. */
HT_MUST_CHECK
struct ht_err *mimap_find(struct view *view, const struct module *module, struct miwalk *walk,
	struct mimap *ret, size_t *ret_count);
/* As misegment_walk: `ret` is zero-initialised, or of a walk before. */
HT_MUST_CHECK
struct ht_err *mimap_walk(struct view *view, const struct mimap *map, struct miwalk *ret);
