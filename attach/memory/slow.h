/* SPDX-License-Identifier: Apache-2.0
 *
 * Mappings whose pages come from a process or over a network: to read one can take for ever. Which
 * they are is known from /proc/PID/maps and mountinfo, without asking the file system.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/* The path of the first such mapping, malloc'd; NULL: there is none. */
HT_MUST_CHECK
struct ht_err *slow_find(const struct proc *proc, const struct proc_maps *maps, char **ret);

/*
 * Reads the files behind all of them, so that their pages are in the kernel's cache. Through
 * descriptors of our own: who waits for a page in the target's memory holds its mmap_lock, and the
 * target's next mmap waits with him. May take for ever, and not even SIGKILL ends it when the
 * server has taken the request: for a worker. What cannot be opened is passed over.
 */
HT_MUST_CHECK
struct ht_err *slow_touch(const struct proc *proc, const struct proc_maps *maps);

/* From here on this process reads none of them: for memory_read they are unreadable, as of the
 * last proc_maps_read. Nor are separate debug files opened. For a process that nobody could end
 * in time. */
void slow_avoid(void);
bool slow_is_avoided(void);

/* For proc_maps_read and memory_read. */
HT_MUST_CHECK
struct ht_err *slow_note(const struct proc *proc, const struct proc_maps *maps);
bool slow_holds(raddr_t addr, size_t length);
