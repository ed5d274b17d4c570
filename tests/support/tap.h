/* SPDX-License-Identifier: Apache-2.0
 *
 * `heaptap attach` as a test drives it: start, wait until the target is tapped, stop, judge. The
 * target is compared with what it was, in every test.
 */
#pragma once

#include <jansson.h>

#include "tests/support/procsnap.h"
#include "tests/support/run.h"

/* {.target = PID} for a test that starts `run` itself. */
struct tap {
	struct run run;
	pid_t target;
	struct procsnap *before; /* NULL: the test has its own, or nothing is compared */
	char trace[4096];
};

/* Takes a snapshot of the target, unless the test holds one itself, and starts `heaptap attach -p
 * PID -o TRACE --json EXTRA...`; `extra` ends with NULL, may be NULL. The trace lies in the test's
 * own directory. */
void tap_start(struct tap *tap, pid_t target, const char *const extra[]);
/* The same with a target that changes meanwhile: `changes` are procsnap's, how it does so. */
void tap_start_changing(struct tap *tap, pid_t target, unsigned changes, const char *const extra[]);
/* For a test that starts `run` itself: the snapshot. */
void tap_look(struct tap *tap, unsigned changes);
/* Waits until every bound allocator slot of the modules whose path ends with `module` is tapped, as
 * the target's memory shows it, all other hooks are in place, and no process traces the target. */
void tap_wait_on(struct tap *tap, const char *module);
/* Is it so? Never waits. */
bool tap_is_on(pid_t target, const char *module);
/* The same where any slot is tapped: for programs with slots of their own making. */
void tap_wait_any(struct tap *tap);
/* Has heaptap tapped all that it will tap, so that the window is open? Never waits. */
bool tap_is_recording(pid_t target);
/* The word at `offset` of struct abi_control in the target; 0: there is none. */
uint64_t tap_control(pid_t target, size_t offset);
/* An expected status: 0, or 7 with events dropped, as it may be where a thread of the target cannot
 * sleep while it waits for the daemon. */
#define TAP_MAY_DROP (-1)
/* SIGINT, then tap_wait. */
json_t *tap_stop(struct tap *tap, int expected_status);
/* Waits for its end; returns the object it printed (NULL if it printed none). Where it has refused
 * the target, or says that nothing is left, the target is as the snapshot has it. Where it says
 * that something is, the test calls one of the next. */
json_t *tap_wait(struct tap *tap, int expected_status);
/* For a test that lets heaptap end in another way, too: the target is as the snapshot has it. */
void tap_verify(struct tap *tap);
/* As procsnap_verify_but. */
void tap_verify_but(struct tap *tap, const char *const expected[]);
/* The same, once a guardian has taken out what is left: within `limit_ms`. */
void tap_verify_soon(struct tap *tap, unsigned limit_ms);
/* The target is not compared, because of `why`. */
void tap_drop(struct tap *tap, const char *why);
/* The object of a detach that left nothing: level 0 or 1, everything equal. */
void tap_check_equal(const json_t *attach);
/* The same, no event dropped, every slot restored. */
void tap_check_clean(const json_t *attach);
/* Checks that recorded plus dropped calls equal the `calls` that the target counted. */
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
