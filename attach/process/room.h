/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process has left of what it may have: its resource limits, the kernel's limit on mappings,
 * the memory of its control groups. Without limit: UINT64_MAX.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

struct room {
	uint64_t file_bytes;	/* longest file it may make (RLIMIT_FSIZE) */
	uint64_t address_bytes; /* RLIMIT_AS */
	uint64_t data_bytes;	/* RLIMIT_DATA */
	/* RLIMIT_MEMLOCK, if it looks as if the process locks whatever it maps */
	uint64_t locked_bytes;
	uint64_t descriptors;  /* RLIMIT_NOFILE */
	uint64_t mappings;     /* vm.max_map_count */
	uint64_t memory_bytes; /* of its memory control groups; caches that can be dropped are room
				*/
	uint64_t commit_bytes; /* of the whole machine, where the kernel promises no more than it
				* has (vm.overcommit_memory=2): a page of a memfd without promise
				* is SIGBUS */
};

HT_MUST_CHECK
struct ht_err *room_read(const struct proc *proc, const struct proc_maps *maps, struct room *ret);

/* How many descriptors fit the table that the target has now; 0: not told. It grows, and never
 * shrinks again, when a higher number is taken. */
int room_descriptor_table(const struct proc *proc);

/* A number that is free in the process, as high as there is one below `below`; 0: none is, or it
 * cannot be seen. */
int room_free_descriptor(const struct proc *proc, int below);

/* room.commit_bytes by the texts of /proc/sys/vm/overcommit_memory and /proc/meminfo. */
uint64_t room_of_commit(const char *mode, const char *meminfo);

/* room.memory_bytes alone. */
uint64_t room_of_cgroups(const struct proc *proc);
