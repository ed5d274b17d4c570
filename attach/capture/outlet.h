/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace of a session: opened, finished with names and closed.
 */
#pragma once

#include "attach/capture/session_state.h"

/* Opens the output; what is found out about the target for its names is found out now. */
HT_MUST_CHECK
struct ht_err *outlet_open(struct session *s);
/* Hands over the target's files and waits until names are looked up and all is written. */
void outlet_finish(struct session *s);
void outlet_close(struct session *s);
