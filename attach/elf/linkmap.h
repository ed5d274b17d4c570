/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic linker's lists of loaded modules (r_debug), one for each namespace, in the order of
 * symbol lookup. Read from the target's memory: a list that changes or is hostile gives too few
 * modules, never too many.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/proc/proc.h"

/* Address of the first list's head, from the program's dynamic section or, for a static program,
 * from a symbol; 0: there is none. */
raddr_t linkmap_head(const struct proc *proc, const struct modules *modules);

/* Calls `visit` for each list's head with `link` and `dynamic` 0, and then for each element of that
 * list, whose dynamic section is at `dynamic`. `space` numbers the lists from 0. Visits at most 64
 * lists and 20,000 elements. */
void linkmap_walk(const struct proc *proc, raddr_t head,
	void (*visit)(void *context, unsigned space, raddr_t head, raddr_t link, raddr_t dynamic),
	void *context);

/* Does another list now follow the list with this head? Does another element now follow this
 * element? False if that cannot be read. */
bool linkmap_head_grew(const struct proc *proc, raddr_t head);
bool linkmap_link_grew(const struct proc *proc, raddr_t link);

/* Sets `space`, `order` and `initial` of all modules. */
void linkmap_apply(const struct proc *proc, struct modules *modules);
