/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a thread of the target that waits in a guard of the agent (agent/guard.c), before an exec
 * or before it makes a child.
 */
#pragma once

#include "attach/hold/follow.h"
#include "attach/inject/image.h"

/* Does a thread wait before an exec (`forks` false), or before it makes a child (`forks` true)?
 * Then `ret` names the thread, and refers to `proc` and to words in `image`. */
bool guard_wait_find(
	const struct image *image, const struct proc *proc, bool forks, struct follow_ask *ret);
