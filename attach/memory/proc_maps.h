/* SPDX-License-Identifier: Apache-2.0
 *
 * The mappings of a process: /proc/PID/maps.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/* All mappings, ascending. Streaming read, no limit on their number but memory. */
HT_MUST_CHECK
struct ht_err *proc_maps_read(const struct proc *proc, struct proc_maps *ret);
void proc_maps_deinit(struct proc_maps *maps);
/* The mapping that holds `addr`, or NULL. Binary search. */
const struct proc_map *proc_maps_find(const struct proc_maps *maps, raddr_t addr);

/* What is mapped at single addresses, now. Where the kernel cannot be asked about one (before
 * 6.11): as it was at the beginning. */
struct proc_lookup {
	const struct proc *proc;
	int fd; /* -1: the kernel cannot */
	struct proc_maps maps;
};

HT_MUST_CHECK
struct ht_err *proc_lookup_begin(const struct proc *proc, struct proc_lookup *ret);
void proc_lookup_end(struct proc_lookup *lookup);
/* False when nothing is mapped at `addr`. ret->name is NULL. */
bool proc_lookup_find(const struct proc_lookup *lookup, raddr_t addr, struct proc_map *ret);
/* The mapping that holds `addr`, or the first behind it; false in `ret_found`: there is none. */
HT_MUST_CHECK
struct ht_err *proc_lookup_next(
	const struct proc_lookup *lookup, raddr_t addr, struct proc_map *ret, bool *ret_found);

/*
 * Opens the file of a mapping for reading: through the mapping itself, or, where that needs rights
 * we do not have, by its name if that still names the same file. HT_ERR_INCOMPLETE: neither works.
 */
HT_MUST_CHECK
struct ht_err *proc_open_mapped(const struct proc *proc, const struct proc_map *map, int *ret);
