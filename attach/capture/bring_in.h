/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings the agent into the target and sets it up; nothing is tapped yet.
 */
#pragma once

#include "attach/capture/session_state.h"

HT_MUST_CHECK
struct ht_err *bring_in(struct session *s);
