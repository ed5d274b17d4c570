/* SPDX-License-Identifier: Apache-2.0
 *
 * After a capture that had to leave its jump page the guardian waits until the program has dropped
 * the addresses for which the page stays, and unmaps the page. It holds no lock meanwhile and gives
 * way to the next heaptap at once.
 */
#pragma once

#include "attach/undo/linger_plan.h"

/* Would the target get the lingering process as its child, once this process has ended? It could
 * see that end, as the first process of a container or an ancestor of ours. */
bool linger_reaches(pid_t target);

/* Leaves the session, the directory and all descriptors of the caller, which keeps standard
 * input, output and error on /dev/null; writes a byte to `ready_fd` then. Returns when all pages
 * are gone, or their processes, when another heaptap comes, or after the time. */
void linger_run(const struct linger_plan *plan, int ready_fd);
