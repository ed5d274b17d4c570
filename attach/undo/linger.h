/* SPDX-License-Identifier: Apache-2.0
 *
 * After a capture that had to leave its jump page, the guardian waits until the program has dropped
 * the addresses for which the page stays, and unmaps the page. It holds no lock meanwhile, and ends
 * at once when another heaptap comes.
 */
#pragma once

#include "attach/undo/linger_plan.h"

/* Would the target become the parent of the lingering process when this process has ended? It would
 * see that process end. True for a target that is the first process of a container, or an ancestor
 * of ours. */
bool linger_reaches(pid_t target);

/*
 * Leaves the caller's session and directory, and closes all its descriptors except standard input,
 * output and error, which must be on /dev/null. Then writes a byte to `ready_fd`. Returns when all
 * pages, or their processes, are gone, when another heaptap comes, or after the time of the plan;
 * at once if a descriptor could not be closed.
 */
void linger_run(const struct linger_plan *plan, int ready_fd);
