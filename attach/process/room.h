/* SPDX-License-Identifier: Apache-2.0
 *
 * How much a process may still take under its resource limits, the kernel's limit on mappings, and
 * the limits of its control groups. UINT64_MAX: no limit.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

struct room {
	uint64_t file_bytes;	/* longest file it may write (RLIMIT_FSIZE) */
	uint64_t address_bytes; /* RLIMIT_AS */
	uint64_t data_bytes;	/* RLIMIT_DATA */
	/* RLIMIT_MEMLOCK, if the process seems to lock everything it maps */
	uint64_t locked_bytes;
	uint64_t descriptors;  /* RLIMIT_NOFILE */
	uint64_t mappings;     /* vm.max_map_count */
	uint64_t memory_bytes; /* of its memory control groups, plus caches that the kernel can drop
				*/
	uint64_t commit_bytes; /* of the whole machine under vm.overcommit_memory=2, where a memfd
				  page beyond it raises SIGBUS */
};

HT_MUST_CHECK
struct ht_err *room_read(const struct proc *proc, const struct proc_maps *maps, struct room *ret);

/* Size of the target's descriptor table now; 0: unknown. A higher number makes it grow, and it
 * never shrinks. */
int room_descriptor_table(const struct proc *proc);

/* The highest free descriptor number of the process below `below`; 0: none, or it cannot be
 * seen. */
int room_free_descriptor(const struct proc *proc, int below);

/* Computes room.commit_bytes from the texts of /proc/sys/vm/overcommit_memory and /proc/meminfo. */
uint64_t room_of_commit(const char *mode, const char *meminfo);

/* Reads room.memory_bytes only. */
uint64_t room_of_cgroups(const struct proc *proc);
