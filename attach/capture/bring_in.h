/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings the agent into the target and sets it up; nothing is tapped yet.
 */
#pragma once

#include "attach/capture/session_state.h"

/* Cycles of the time stamp counter in `ns`, by what has passed since the session's start. */
uint64_t bring_in_cycles(const struct session *s, uint64_t ns);
HT_MUST_CHECK
struct ht_err *bring_in(struct session *s);
