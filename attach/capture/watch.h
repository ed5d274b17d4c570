/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches the target for new and ended threads, and for loaded libraries. Looks from outside, at a
 * low rate; stops nothing.
 */
#pragma once

#include "attach/daemon/receiver.h"
#include "attach/plan/survey.h"

struct watch;

struct watch_options {
	const struct survey *survey; /* borrowed; the caller may refresh it between calls */
	struct receiver *receiver;
	struct sink *sink;
};

HT_MUST_CHECK
struct ht_err *watch_create(const struct watch_options *options, struct watch **ret);
void watch_destroy(struct watch *watch);

/* Has the set of loaded modules, the set of executable mappings, or the word in a slot changed, so
 * that the survey must be refreshed? Cheap on most calls. */
HT_MUST_CHECK
struct ht_err *watch_modules(struct watch *watch, uint64_t now_mono_ns, bool *ret_changed);
/* Call when the survey is refreshed and its slots are hooked: from here on, a slot with another
 * word is a change. */
void watch_settled(struct watch *watch);
/* Tells the agent the stack bounds of new threads, puts the names of threads into the trace, and
 * releases the records of dead threads. `stack_kib`: the size of the main thread's stack, from
 * glance_status; while it does not change, and is not 0, the main thread's bounds are read again
 * only every half second. */
HT_MUST_CHECK
struct ht_err *watch_threads(struct watch *watch, uint64_t now_mono_ns, uint64_t stack_kib);
/* Puts the names of threads into the trace, and does nothing else. Call it also before the window
 * ends. */
HT_MUST_CHECK
struct ht_err *watch_names(struct watch *watch);
/* Did a thread start lately? Then others may start, and end before the next look: call watch_names
 * more often. */
bool watch_names_soon(const struct watch *watch);
