/* SPDX-License-Identifier: Apache-2.0
 *
 * Interpreted JavaScript functions of the target's first thread and of some workers: the agent
 * tells them apart by where their BytecodeArray lies, which is true only as long as V8 puts nothing
 * else there. So each of these threads has generations, each from one collection of all garbage to
 * the next, or to the thread's end, and the trace says up to when each holds.
 */
#pragma once

#include "attach/capture/session_state.h"

/* What of the V8 of this layout has to be known. `ret_places`: v8_names_options. */
HT_MUST_CHECK
struct ht_err *interpreted_prepare(
	struct session *s, const struct v8_layout *layout, struct v8_places *ret_places);
/* Begins with the first snapshot, if it can. The names are there. */
void interpreted_configure(struct session *s);
/* receiver_drain, when it is known up to when the generations hold. */
HT_MUST_CHECK
struct ht_err *interpreted_drain(struct session *s);
/* The same, and looks for workers. Called each tick. */
HT_MUST_CHECK
struct ht_err *interpreted_follow(struct session *s);
/* receiver_drain_last; whether the agent can write no more is what session.mapped and
 * change.is_gone say. */
HT_MUST_CHECK
struct ht_err *interpreted_drain_last(struct session *s);
/* Closes what is open. Before the names go. */
void interpreted_finish(struct session *s);
