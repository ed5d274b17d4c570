/* SPDX-License-Identifier: Apache-2.0
 *
 * Mappings whose pages a process or a network serves (FUSE, NFS): reading one can take forever.
 * Recognised by /proc/PID/maps and mountinfo (of the target; for devices missing there, of this
 * process and process 1), without asking the file system.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/* `*ret` is the path of the first slow mapping, malloc'd; NULL: there is none. */
HT_MUST_CHECK
struct ht_err *slow_find(const struct proc *proc, const struct proc_maps *maps, char **ret);

/* Reads the mapped parts of the files behind all slow mappings into the page cache, through
 * descriptors of this process: a reader of the target's memory that waits for a page holds the
 * target's mmap_lock, and blocks the target's next mmap. May take forever, and not even SIGKILL
 * ends it once the server has taken the request: call it in a worker. Skips mappings of more than
 * 256 MiB and files that cannot be opened. */
HT_MUST_CHECK
struct ht_err *slow_touch(const struct proc *proc, const struct proc_maps *maps);

/* From here on this process reads no slow mapping: memory_read reports those of the last
 * proc_maps_read as unreadable. This process does not open separate debug files either. For a
 * process that cannot be killed in time when it hangs. */
void slow_avoid(void);
bool slow_is_avoided(void);

/* proc_maps_read calls slow_remember, which after slow_avoid records the slow mappings among
 * `maps`. memory_read calls slow_is_in: is any byte of the range in a recorded mapping? */
HT_MUST_CHECK
struct ht_err *slow_remember(const struct proc *proc, const struct proc_maps *maps);
bool slow_is_in(raddr_t addr, size_t length);
