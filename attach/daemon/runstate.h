/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a process in the kernel's scheduler: a process that only waits for a processor does
 * not hang.
 */
#pragma once

#include <sys/types.h>

/* Returns the state as in proc_pid_stat(5): R S D T t Z X I; '?' if it cannot be read, as after the
 * process's end. `stat`: an open /proc/PID/stat, which never shows a later process with that PID.
 * Reads from its beginning, whatever its position. */
char runstate_read(int stat);
/* As runstate_read, for the process that has the number `pid` now; '?' also if there is none. */
char runstate_of(pid_t pid);
