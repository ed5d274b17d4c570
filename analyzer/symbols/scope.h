/* SPDX-License-Identifier: Apache-2.0
 *
 * The namespaces and classes around the functions of a compilation unit. A compiler gives a linkage
 * name, which has them in it, to most functions of C++, but gcc gives none to those that other
 * files cannot see, as are all that a lambda's type makes out of templates.
 */
#pragma once

#include <elfutils/libdw.h>

#include "format/map.h"

struct scope {
	const char *name; /* lives as long as its file */
	uint32_t parent;  /* index; SCOPE_NONE for the unit */
};

#define SCOPE_NONE UINT32_MAX

/* Zero-initialised is empty and valid. */
struct scopes {
	bool indexed;
	struct map by_function; /* DIE offset -> index in scope */
	struct scope *scope;
	size_t count, capacity;
};

void scopes_deinit(struct scopes *scopes);
/* The name of the function `die`, a concrete or inlined one, with those of the scopes around its
 * declaration and with "(...)" for its parameters; empty when it is in no scope of `unit`, or has
 * no name. Longer ones than `size` are cut. */
HT_MUST_CHECK
struct ht_err *scopes_name(
	struct scopes *scopes, Dwarf_Die *unit, Dwarf_Die *die, char *ret, size_t size);
