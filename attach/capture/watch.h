/* SPDX-License-Identifier: Apache-2.0
 *
 * What changes in the target while it is captured: threads come and go, libraries are loaded. Looks
 * from outside, at a low rate; nothing is stopped.
 */
#pragma once

#include "attach/daemon/receiver.h"
#include "attach/plan/survey.h"

struct watch;

struct watch_options {
	const struct survey *survey; /* borrowed; may be refreshed between calls */
	struct receiver *receiver;
	struct sink *sink;
};

HT_MUST_CHECK
struct ht_err *watch_create(const struct watch_options *options, struct watch **ret);
void watch_destroy(struct watch *watch);

/* Has the set of loaded modules, of executable mappings, or what a slot holds changed, so that the
 * survey has to be refreshed? Cheap on most calls. */
HT_MUST_CHECK
struct ht_err *watch_modules(struct watch *watch, uint64_t now_mono_ns, bool *ret_changed);
/* The survey is refreshed and its slots are tapped: from here on a slot that holds something else
 * is a change. */
void watch_settled(struct watch *watch);
/* Gives new threads their stack bounds, names them, releases the slots of dead ones. `stack_kib`:
 * of glance_status; as long as it is the same, and not 0, the main thread's stack is taken to be
 * what it was, for half a second at most. */
HT_MUST_CHECK
struct ht_err *watch_threads(struct watch *watch, uint64_t now_mono_ns, uint64_t stack_kib);
/* The names alone: once more before the window ends. */
HT_MUST_CHECK
struct ht_err *watch_names(struct watch *watch);
/* Are threads coming that may end before the next look, so that watch_names is to be called more
 * often? */
bool watch_names_soon(const struct watch *watch);
