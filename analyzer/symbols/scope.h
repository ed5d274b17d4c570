/* SPDX-License-Identifier: Apache-2.0
 *
 * The namespaces and classes around the functions of a compilation unit. Most C++ functions have a
 * linkage name, which contains them. But gcc gives none to functions local to a file, which include
 * all template instances with a lambda's type.
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
/* The name of the function `die`, a concrete or inlined one, with the names of the scopes around
 * its declaration, and "(...)" for its parameters. Empty if the function is in no scope of `unit`
 * or has no name. Cut to `size` bytes. */
HT_MUST_CHECK
struct ht_err *scopes_name(
	struct scopes *scopes, Dwarf_Die *unit, Dwarf_Die *die, char *ret, size_t size);
