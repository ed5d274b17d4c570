/* SPDX-License-Identifier: Apache-2.0
 *
 * How the kernel's scheduler sees a process: a process that only waits for a processor is not to be
 * given up as one that hangs.
 */
#pragma once

#include <sys/types.h>

/* R S D T t Z X I, as proc_pid_stat(5) has it; '?': it cannot be read. `stat` is open on
 * /proc/PID/stat, which stays that process's when it has ended; its position does not matter. */
char runstate_read(int stat);
/* As runstate_read, for the process that has the number `pid` now; '?' also if there is none. */
char runstate_of(pid_t pid);
