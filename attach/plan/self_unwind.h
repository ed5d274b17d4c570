/* SPDX-License-Identifier: Apache-2.0
 *
 * Does an allocator unwind its caller's stack? Found by its code: calls and jumps are followed from
 * its functions to a function that unwinds. libgcc's unwinder has no table for the agent's frame,
 * and stops there.
 */
#pragma once

#include "attach/got/relocs.h"

enum self_unwind_by {
	SELF_UNWIND_NOT,   /* not, as far as the code tells */
	SELF_UNWIND_OTHER, /* by libunwind, which goes on by frame pointers where it has no table */
	SELF_UNWIND_LIBGCC, /* by backtrace(3) or _Unwind_Backtrace */
};

#define SELF_UNWIND_FUNCTIONS_MAX 16u

struct self_unwind {
	const struct proc *proc;
	const struct modules *modules;
	/* The functions that unwind: first those of libraries, then the `linked_count` ones that
	 * are linked in without a relocation. */
	raddr_t function[SELF_UNWIND_FUNCTIONS_MAX];
	size_t function_count, linked_count;
};

/* Finds, in the system's libraries, the functions that unwind. Call it first. */
HT_MUST_CHECK
struct ht_err *self_unwind_find(
	const struct proc *proc, const struct modules *modules, struct self_unwind *ret);
/* Adds a function that unwinds and is linked into the module that is examined. */
void self_unwind_add_linked(struct self_unwind *unwinds, raddr_t function);
/* Is `name` a function of libgcc's or the C library's that unwinds? */
bool self_unwind_is_name(const char *name);
/* Does the module use such a function of another module, or is one linked in? */
HT_MUST_CHECK
struct ht_err *self_unwind_has(
	const struct self_unwind *unwinds, const struct module *module, bool *ret);
/*
 * Can a call of one of the module's functions at `entry` reach a function that unwinds, and return?
 * A branch on a variable is followed in the direction of the variable's present value. Calls
 * through registers and tables, and code of the C library, are not followed. Ignores more than
 * SELF_UNWIND_ENTRIES_MAX entries.
 */
#define SELF_UNWIND_ENTRIES_MAX 64u
HT_MUST_CHECK
struct ht_err *self_unwind_from(const struct self_unwind *unwinds, const struct module *module,
	const raddr_t *entry, size_t count, enum self_unwind_by *ret);
/* Is it a module of the C or C++ library, the dynamic linker, libgcc, or a sanitizer? */
bool self_unwind_is_system(const struct module *module);
