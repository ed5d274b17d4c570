/* SPDX-License-Identifier: Apache-2.0
 *
 * Near areas: mappings of the image's memfd, each close to functions with an entry hook. The jumps
 * of these functions lead to pads in the areas, and their bridges are there, too. The areas are
 * mapped and unmapped with the image. Chooses the areas, and finds them again.
 */
#pragma once

#include "attach/inject/bridge.h"
#include "attach/inject/image.h"
#include "attach/memory/proc_map.h"

struct near_hook {
	const struct bridge *bridge; /* where the function can be hooked; the first is preferred */
	size_t count;
	bool needed;   /* place it before the others */
	raddr_t at;    /* out: address of its struct abi_bridge; 0: no room for bridge or pad */
	size_t chosen; /* out: index of the chosen bridge */
};

/* Gives each function a bridge. The pads are in at most `area_max` areas of free address space; a
 * bridge may be in any of them. HT_ERR_REFUSED if there are more than 256 functions. */
HT_MUST_CHECK
struct ht_err *near_place(const struct proc_maps *maps, size_t area_max, struct near_hook *hook,
	size_t count, raddr_t ret_near[ABI_NEAR_MAX], size_t *ret_near_count);

/* Is this mapping one of a heaptap's near areas? */
bool near_is_area(const struct proc_map *map);
/* Finds the near areas of the image with this memfd by the mappings, for when no journal names
 * them. */
HT_MUST_CHECK
struct ht_err *near_find(
	const struct proc *proc, const struct image_file *file, raddr_t ret[ABI_NEAR_MAX]);

/* Returns where the daemon writes the contents of `addr` in one of the areas `near`; NULL: in none
 * of them. */
uint8_t *near_local(const struct image *image, const raddr_t near[ABI_NEAR_MAX], raddr_t addr);
