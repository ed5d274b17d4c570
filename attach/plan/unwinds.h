/* SPDX-License-Identifier: Apache-2.0
 *
 * Does an allocator unwind its caller's stack? Found by its code: calls and jumps are followed from
 * its functions to a function that unwinds. libgcc's unwinder has no table for the agent's frame,
 * and stops there.
 */
#pragma once

#include "attach/got/relocs.h"

enum unwinds_by {
	UNWINDS_NOT,	/* none, as far as the code tells */
	UNWINDS_OTHER,	/* by libunwind, which goes on by frame pointers where it has no table */
	UNWINDS_LIBGCC, /* by backtrace(3) or _Unwind_Backtrace */
};

#define UNWINDS_FUNCTIONS_MAX 16u

struct unwinds {
	const struct proc *proc;
	const struct modules *modules;
	/* The functions that unwind, in libraries, or linked in without a relocation. */
	raddr_t function[UNWINDS_FUNCTIONS_MAX];
	size_t function_count, linked_count;
};

/* Finds the functions that unwind in the libraries. Call it first. */
HT_MUST_CHECK
struct ht_err *unwinds_find(
	const struct proc *proc, const struct modules *modules, struct unwinds *ret);
/* Adds a function that unwinds and is linked into the module that is examined. */
void unwinds_add_linked(struct unwinds *unwinds, raddr_t function);
/* Is `name` a function of libgcc's or the C library's that unwinds? */
bool unwinds_is_name(const char *name);
/* Does the module use such a function of another module, or is one linked in? */
HT_MUST_CHECK
struct ht_err *unwinds_has(const struct unwinds *unwinds, const struct module *module, bool *ret);
/*
 * Can a call of one of the module's functions at `entry` reach a function that unwinds, and return?
 * A branch on a variable is followed in the direction of the variable's present value. Calls
 * through registers and tables, and code of the C library, are not followed. Ignores more than
 * UNWINDS_ENTRIES_MAX entries.
 */
#define UNWINDS_ENTRIES_MAX 64u
HT_MUST_CHECK
struct ht_err *unwinds_from(const struct unwinds *unwinds, const struct module *module,
	const raddr_t *entry, size_t count, enum unwinds_by *ret);
/* Is it a module of the C or C++ library, the dynamic linker, libgcc, or a sanitizer? */
bool unwinds_is_system(const struct module *module);
