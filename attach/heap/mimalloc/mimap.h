/* SPDX-License-Identifier: Apache-2.0
 *
 * mimalloc's map of its pages (3.x): a word for each 64 KiB of addresses names the page that owns
 * them. The map has two levels; the first is a variable without an exported name. It proves itself:
 * a page says where its blocks begin, their number and size, and the memory they are in, which must
 * agree with the map. The map has the pages of all threads.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/mimalloc/mipage.h"

struct mimap {
	raddr_t root;
	uint64_t entries; /* of the root, each for 512 MiB */
	unsigned forms;	  /* that its pages may have, one bit each */
};

/* Searches the module's variables. `*ret_count`: the number of maps found. A map without pages does
 * not count. `walk` as for mimap_walk; its contents are undefined afterwards. */
HT_MUST_CHECK
struct ht_err *mimap_find(struct view *view, const struct module *module, struct miwalk *walk,
	struct mimap *ret, size_t *ret_count);
/* As misegment_walk, through the map. */
HT_MUST_CHECK
struct ht_err *mimap_walk(struct view *view, const struct mimap *map, struct miwalk *ret);
