/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic linker of a process that has just exec'd, before it has run.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/memory/proc_map.h"

struct linker {
	bool found; /* false: there is none, as the program is statically linked */
	struct module module;
	raddr_t entry; /* of the program; 0: a dynamic linker was started as the program */
	raddr_t state; /* r_state of its list, an int (<link.h>); 0: unknown (musl) */
};

/* Finds the dynamic linker in `maps`. Requires proc_open_mem. */
HT_MUST_CHECK
struct ht_err *linker_find(
	const struct proc *proc, const struct proc_maps *maps, struct linker *ret);
