/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread of the target that waits in a guard of the agent before it execs or makes a child
 * (agent/guard.c).
 */
#pragma once

#include "attach/hold/follow.h"
#include "attach/inject/image.h"

/* Does a thread wait, before an exec or (`forks`) a child? Then `ret` names it and refers to `proc`
 * and to the words in `image`. */
bool asked_by(
	const struct image *image, const struct proc *proc, bool forks, struct follow_ask *ret);
