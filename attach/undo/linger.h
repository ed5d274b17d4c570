/* SPDX-License-Identifier: Apache-2.0
 *
 * After a capture that had to leave its jump page, the guardian waits until the program has dropped
 * the addresses for which the page stays, and unmaps the page. It holds no lock while it waits, and
 * ends at once when another heaptap comes.
 */
#pragma once

#include "attach/undo/linger_plan.h"

/* Would the target become the parent of the lingering process when this process has ended? Then the
 * target would see the lingering process end. True if `target` is process 1 of our PID namespace,
 * or an ancestor of this process. */
bool linger_reaches(pid_t target);

/*
 * Leaves the caller's session and directory, and closes all its descriptors except standard input,
 * output and error, which must be on /dev/null. Then writes a byte to `ready_fd` and closes it.
 * Waits for each page until the page or its process is gone, or another heaptap comes to that
 * process. Gives up a page if memory that cannot be searched is the only reason for it. Returns
 * when no page is left, or after the time of the plan; at once if a descriptor could not be closed,
 * or the directory not left.
 */
void linger_run(const struct linger_plan *plan, int ready_fd);
