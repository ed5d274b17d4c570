/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of a target's JavaScript functions, for the trace of a capture.
 */
#pragma once

#include "attach/capture/session_state.h"

/* Is there a V8, and is it one whose functions can be named? If not, report->scripts_problem says
 * why, and nothing else is done. After survey_read. */
HT_MUST_CHECK
struct ht_err *scripts_prepare(struct session *s);
/* What the agent has to write down for it; before publish_snapshot. */
void scripts_configure(struct session *s, struct abi_config *config);
/* A node_scan_observer; the context is the session. */
void scripts_see(void *context, struct rec_node *node, uint64_t function);
/* Looks up some of what was seen, and puts the names. Called each tick. */
HT_MUST_CHECK
struct ht_err *scripts_follow(struct session *s);
/* The rest, when the last node was seen. */
HT_MUST_CHECK
struct ht_err *scripts_finish(struct session *s);
