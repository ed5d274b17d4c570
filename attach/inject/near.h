/* SPDX-License-Identifier: Apache-2.0
 *
 * Near areas: where the jumps of hooked functions lead to, and their bridges stand. Each is a
 * mapping of the image's memfd at a place of its own, made and taken out with the image. Chosen
 * here, and found again.
 */
#pragma once

#include "attach/inject/bridge.h"
#include "attach/inject/image.h"
#include "attach/memory/proc_map.h"

struct near_hook {
	const struct bridge *bridge; /* of a function to be hooked: one of these, the first if it
				      * can be */
	size_t count;
	bool needed;   /* before the others */
	raddr_t at;    /* out: of its struct abi_bridge; 0: no room, or none where its pad is */
	size_t chosen; /* out: which */
};

/* Gives each function a bridge, in at most `area_max` areas of free address space that hold the
 * pads. Bridges find room in any of them. */
HT_MUST_CHECK
struct ht_err *near_place(const struct proc_maps *maps, size_t area_max, struct near_hook *hook,
	size_t count, raddr_t ret_near[ABI_NEAR_MAX], size_t *ret_near_count);

/* Is this mapping one of a heaptap's near areas? */
bool near_is_area(const struct proc_map *map);
/* The near areas of the image with that memfd, whoever has forgotten them. */
HT_MUST_CHECK
struct ht_err *near_find(
	const struct proc *proc, const struct image_file *file, raddr_t ret[ABI_NEAR_MAX]);

/* Where the daemon writes what is to stand at `addr` of area `near[i]`; NULL: in none. */
uint8_t *near_local(const struct image *image, const raddr_t near[ABI_NEAR_MAX], raddr_t addr);
