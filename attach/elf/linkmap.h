/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic linker's own lists of what it has loaded (r_debug), one for each namespace: in the
 * order in which names are looked up. Read from the target's memory: lists in motion, or hostile
 * ones, give too little, never too much.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/proc/proc.h"

/* Address of the first list's head, which the program's dynamic section names, or a symbol of a
 * program that is linked statically; 0: there is none. */
raddr_t linkmap_head(const struct proc *proc, const struct modules *modules);

/* Calls `visit` for each list's head (`link` is 0) and then for each element of it, whose dynamic
 * section is at `dynamic`. */
void linkmap_walk(const struct proc *proc, raddr_t head,
	void (*visit)(void *context, unsigned space, raddr_t head, raddr_t link, raddr_t dynamic),
	void *context);

/* Has anything been added behind the list whose head, or last element, this is? False when that
 * cannot be read. */
bool linkmap_head_grew(const struct proc *proc, raddr_t head);
bool linkmap_link_grew(const struct proc *proc, raddr_t link);

/* Sets `space`, `order` and `initial` of all modules. */
void linkmap_apply(const struct proc *proc, struct modules *modules);
