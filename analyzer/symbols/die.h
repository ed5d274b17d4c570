/* SPDX-License-Identifier: Apache-2.0
 *
 * Iterates over DWARF so that the iteration ends even in a damaged file.
 */
#pragma once

#include <elfutils/libdw.h>

#include "format/base.h"

/* Moves to the next sibling. False if the sibling does not lie behind the DIE: a damaged file could
 * make a cycle. */
static inline bool die_next_sibling(Dwarf_Die *die)
{
	const char *at = die->addr;
	return dwarf_siblingof(die, die) == 0 && (const char *)die->addr > at;
}
