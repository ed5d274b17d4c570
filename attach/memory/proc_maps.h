/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the mappings of a process: /proc/PID/maps.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/* Reads all mappings, ascending by address. Only memory limits their number. Free with
 * proc_maps_deinit. */
HT_MUST_CHECK
struct ht_err *proc_maps_read(const struct proc *proc, struct proc_maps *ret);
void proc_maps_deinit(struct proc_maps *maps);
/* The mapping that contains `addr`, or NULL. */
const struct proc_map *proc_maps_find(const struct proc_maps *maps, raddr_t addr);

/* Looks up the current mapping at single addresses. Before Linux 6.11 the kernel cannot answer
 * that: then the mappings are those at proc_lookup_begin. */
struct proc_lookup {
	const struct proc *proc;
	int fd; /* -1: the kernel cannot answer */
	struct proc_maps maps;
};

HT_MUST_CHECK
struct ht_err *proc_lookup_begin(const struct proc *proc, struct proc_lookup *ret);
void proc_lookup_end(struct proc_lookup *lookup);
/* False if nothing is mapped at `addr`, or the mappings cannot be read. ret->name is NULL. */
bool proc_lookup_find(const struct proc_lookup *lookup, raddr_t addr, struct proc_map *ret);
/* Finds the mapping that contains `addr`, or else the first one above. `*ret_found` is false if
 * there is none. ret->name is NULL. */
HT_MUST_CHECK
struct ht_err *proc_lookup_next(
	const struct proc_lookup *lookup, raddr_t addr, struct proc_map *ret, bool *ret_found);

/* Opens the regular file of a mapping for reading: through /proc/PID/map_files, or, if that fails,
 * by its name below the target's root directory, if the name still leads to the same inode. The
 * caller closes `*ret`. HT_ERR_INCOMPLETE: neither works. */
HT_MUST_CHECK
struct ht_err *proc_open_mapped(const struct proc *proc, const struct proc_map *map, int *ret);
