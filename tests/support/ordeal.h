/* SPDX-License-Identifier: Apache-2.0
 *
 * One target, to which heaptap attaches again and again while something is done to heaptap at its
 * system calls, and what must hold after each time.
 */
#pragma once

#include "tests/support/procsnap.h"
#include "tests/support/sweep.h"
#include "tests/support/victim.h"

#define ORDEAL_HEAPTAP_MS 120000u

struct ordeal_target {
	const char *name;
	const char *argv[4]; /* below tests/targets */
	const char *hook;    /* of heaptap's --hook; NULL: none */
	unsigned changes;    /* by itself: enum procsnap_flag */
	bool storm;	     /* busy -s: each undisturbed attach must meet some of its signals */
};

struct ordeal {
	const struct ordeal_target *target;
	struct victim victim;
	struct procsnap *before;
	char pid[16], *trace;
	unsigned points;      /* of a sweep; 8, unless a test tries fewer */
	const char *argv[16]; /* heaptap attach, 20 ms, --json */
};

void ordeal_init(struct ordeal *ordeal, const struct ordeal_target *target);
/* Nothing is left in the target, and it finds its own results right. */
void ordeal_deinit(struct ordeal *ordeal);

/* An attach that nothing happens to, and that must be perfect. Returns how many calls `like` would
 * have counted. */
uint64_t ordeal_undisturbed(struct ordeal *ordeal, const struct sweep_plan *like);

/* Did heaptap, of which this is the standard error, attach and detach? Its first line is then about
 * how it left the target. */
bool ordeal_is_capture(const char *err);
/* How the target differs from what it was before; "" not at all. malloc'd. */
char *ordeal_difference(const struct ordeal *ordeal);
/* The target answers and does not differ; `where` is for the message. */
void ordeal_check(struct ordeal *ordeal, const char *where);
/* All of heaptap is dead: whatever is left passes calls through, is not touched by an attach, and
 * `heaptap recover` takes it out. */
void ordeal_recover(struct ordeal *ordeal, const char *where);
/* Checks that the output is empty or a valid trace, then removes it. `whole`: it must be a trace
 * with its end record. False: no file. */
bool ordeal_check_trace(struct ordeal *ordeal, bool whole);

/*
 * Runs `once(ordeal, plan)` with plan->at at one point (sweep_points_of) after the other. It
 * returns whether the point was reached, as at least half of them must be. Every tenth time, and at
 * the end, an undisturbed attach must work.
 */
void ordeal_sweep(struct ordeal *ordeal, struct sweep_plan plan,
	bool (*once)(struct ordeal *ordeal, const struct sweep_plan *plan));
/* The same with plan->places, once at each place (and its 4th, 16th... call) that `places` does not
 * know from another target; an undisturbed attach at the end. HEAPTAP_SWEEP=places lets
 * ordeal_sweep do this with places of its own. */
void ordeal_sweep_places(struct ordeal *ordeal, struct sweep_plan plan,
	bool (*once)(struct ordeal *ordeal, const struct sweep_plan *plan), struct places *places);
