/* SPDX-License-Identifier: Apache-2.0
 *
 * `heaptap attach` as a test drives it: start, wait until the target is tapped, stop, judge.
 */
#pragma once

#include <jansson.h>

#include "tests/support/run.h"

struct tap {
	struct run run;
	pid_t target;
	char trace[4096];
};

/* Starts `heaptap attach -p PID -o TRACE --json EXTRA...`; `extra` ends with NULL, may be NULL. The
 * trace lies in the test's own directory. */
void tap_start(struct tap *tap, pid_t target, const char *const extra[]);
/* Waits until every bound allocator slot of the modules whose path ends with `module` is tapped, as
 * the target's memory shows it, and nobody traces the target. */
void tap_wait_on(struct tap *tap, const char *module);
/* Is it so? Never waits. */
bool tap_is_on(pid_t target, const char *module);
/* Waits until any slot is tapped and nobody traces the target: for programs with slots of their own
 * making. */
void tap_wait_any(struct tap *tap);
/* An expected status: 0, or 7 with events dropped, as it may be where a thread of the target cannot
 * sleep while it waits for the daemon. */
#define TAP_MAY_DROP (-1)
/* SIGINT, then tap_wait. */
json_t *tap_stop(struct tap *tap, int expected_status);
/* Waits for its end; returns the object it printed (NULL if it printed none). */
json_t *tap_wait(struct tap *tap, int expected_status);
/* The object of a detach that left nothing: level 0 or 1, everything equal. */
void tap_check_equal(const json_t *attach);
/* The same, no event dropped, every slot restored. */
void tap_check_clean(const json_t *attach);
/* What was recorded and what was dropped are all of the target's own `calls`. */
void tap_check_balance(const json_t *attach, uint64_t calls);
/* The guardian of a capture that has begun. */
pid_t tap_guardian(const struct tap *tap);
/* Kills heaptap. Its guardian, stopped first, has not taken anything out yet, and is a child of the
 * test from now on. */
pid_t tap_kill_daemon(struct tap *tap);
/* Kills both: what they made stays in the target. */
void tap_abandon(struct tap *tap);
/* Have the guardians of heaptaps that are gone ended? They become children of a test that is a
 * PR_SET_CHILD_SUBREAPER; `victim` is to be its only other child. */
bool tap_guardian_is_done(pid_t victim);
