/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps through DWARF that end, whatever the file says.
 */
#pragma once

#include <elfutils/libdw.h>

#include "format/base.h"

/* Moves to the next sibling. It must lie further on, otherwise a damaged file could make a cycle.
 */
static inline bool die_next_sibling(Dwarf_Die *die)
{
	const char *at = die->addr;
	return dwarf_siblingof(die, die) == 0 && (const char *)die->addr > at;
}
