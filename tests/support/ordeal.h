/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeated attaches to one target, each with a fault injected into heaptap at a system call, and
 * the checks after each.
 */
#pragma once

#include "tests/support/procsnap.h"
#include "tests/support/sweep.h"
#include "tests/support/victim.h"

#define ORDEAL_HEAPTAP_MS 120000u

struct ordeal_target {
	const char *name;
	const char *argv[4]; /* argv[0] is a path below tests/targets */
	const char *hook;    /* the value of heaptap's --hook; NULL: without the option */
	unsigned changes;    /* what the target changes by itself: enum procsnap_flag */
	bool storm; /* the target is busy -s: it must handle some signals during each undisturbed
		       attach */
};

struct ordeal {
	const struct ordeal_target *target;
	struct victim victim;
	struct procsnap *before;
	char pid[16], *trace;
	unsigned points;      /* points of a sweep; 8, unless the test sets fewer */
	const char *argv[16]; /* heaptap attach, 20 ms, --json */
};

void ordeal_init(struct ordeal *ordeal, const struct ordeal_target *target);
/* Fails the test unless the target equals its snapshot; then stops the target, whose own results
 * must be right. */
void ordeal_deinit(struct ordeal *ordeal);

/* An attach without a fault, which must succeed in every respect. Returns how many calls `like`
 * would have counted. */
uint64_t ordeal_undisturbed(struct ordeal *ordeal, const struct sweep_plan *like);

/* Does heaptap's standard error `err` say in what state heaptap left the target? Only an attach
 * that reached its detach, or the end of the target, says so. */
bool ordeal_is_capture(const char *err);
/* The difference of the target from its snapshot; "": none. malloc'd. */
char *ordeal_difference(const struct ordeal *ordeal);
/* Checks that the target answers and equals its snapshot; `where` is for the message. */
void ordeal_check(struct ordeal *ordeal, const char *where);
/* For a target whose heaptap processes have all ended. If the target differs from its snapshot:
 * checks that attach refuses the target, that the target still answers, and that `heaptap recover`
 * ends with 0. Does not compare again: call ordeal_check. */
void ordeal_recover(struct ordeal *ordeal, const char *where);
/* Checks that the output is empty or a valid trace, then removes it. `whole`: it must be a trace
 * with its end record and footer. False: no file. */
bool ordeal_check_trace(struct ordeal *ordeal, bool whole);

/*
 * Runs `once(ordeal, plan)` with plan->at at the points of sweep_points_of in turn; `once` returns
 * true if the point was reached. Ends at a point that was not, if it lies behind the calls of an
 * undisturbed attach. At the beginning, after every tenth point and at the end, an undisturbed
 * attach must work. One point must be reached (if none was, tries first / 2, first / 4...), and
 * half of those up to the number of calls of the shortest of these attaches.
 */
void ordeal_sweep(struct ordeal *ordeal, struct sweep_plan plan,
	bool (*once)(struct ordeal *ordeal, const struct sweep_plan *plan));
/* Runs `once` at the 1st, 4th, 16th... call of each place, except those that an earlier sweep with
 * the same `places` has tried; then an undisturbed attach. HEAPTAP_SWEEP=places makes ordeal_sweep
 * do the same with a new `places`. */
void ordeal_sweep_places(struct ordeal *ordeal, struct sweep_plan plan,
	bool (*once)(struct ordeal *ordeal, const struct sweep_plan *plan), struct places *places);
