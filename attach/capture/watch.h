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
	const struct survey *survey; /* borrowed; may be refreshed between calls */
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
/* Gives new threads their stack bounds, names threads, releases the records of dead threads.
 * `stack_kib` comes from glance_status: while it is the same, and not 0, the main thread's bounds
 * are kept, for half a second at most. */
HT_MUST_CHECK
struct ht_err *watch_threads(struct watch *watch, uint64_t now_mono_ns, uint64_t stack_kib);
/* Only names the threads: once more before the window ends. */
HT_MUST_CHECK
struct ht_err *watch_names(struct watch *watch);
/* Are new threads starting that may end before the next look? Then watch_names should be called
 * more often. */
bool watch_names_soon(const struct watch *watch);
