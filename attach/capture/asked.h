/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread of the target that waits in a guard of the agent, since it is about to exec or to make a
 * child (agent/guard.c).
 */
#pragma once

#include "attach/capture/session_state.h"
#include "attach/hold/follow.h"

/* Does one wait, before an exec or (`forks`) a child? Then it is `ret`. */
bool asked_by(const struct session *s, bool forks, struct follow_ask *ret);
