/* SPDX-License-Identifier: Apache-2.0
 *
 * Does an allocator unwind the stack of its caller? Found out by its code: from a function, calls
 * and jumps are followed to one of the functions that unwind. The unwinder of libgcc finds no table
 * for the agent's frame, and ends there.
 */
#pragma once

#include "attach/got/relocs.h"

enum unwinds_by {
	UNWINDS_NOT,	/* as far as the code tells */
	UNWINDS_OTHER,	/* by libunwind, which goes on by frame pointers where it has no table */
	UNWINDS_LIBGCC, /* by backtrace(3) or _Unwind_Backtrace */
};

#define UNWINDS_FUNCTIONS_MAX 16u

struct unwinds {
	const struct proc *proc;
	const struct modules *modules;
	/* Functions of these names: of the libraries, or linked in, where no relocation tells. */
	raddr_t function[UNWINDS_FUNCTIONS_MAX];
	size_t function_count, linked_count;
};

/* Finds them in the libraries; has to come first. */
HT_MUST_CHECK
struct ht_err *unwinds_find(
	const struct proc *proc, const struct modules *modules, struct unwinds *ret);
/* One that is linked into the module that is looked at. */
void unwinds_add_linked(struct unwinds *unwinds, raddr_t function);
/* Is `name` a function of libgcc's or the C library's that unwinds? */
bool unwinds_is_name(const char *name);
/* Does the module take such a function from another, or is one linked in? */
HT_MUST_CHECK
struct ht_err *unwinds_has(const struct unwinds *unwinds, const struct module *module, bool *ret);
/* Can a call of one of the functions at `entry`, of `module`, come to one of them and return?
 * Branches on a variable are followed as its value is now; what leads through registers and tables
 * is not followed, nor what lies in the C library. More than UNWINDS_ENTRIES_MAX are left out. */
#define UNWINDS_ENTRIES_MAX 64u
HT_MUST_CHECK
struct ht_err *unwinds_from(const struct unwinds *unwinds, const struct module *module,
	const raddr_t *entry, size_t count, enum unwinds_by *ret);
/* A module of the C or C++ library, the dynamic linker, libgcc, or a sanitizer. */
bool unwinds_is_system(const struct module *module);
