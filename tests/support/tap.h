/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives `heaptap attach`: starts it, waits until the target is tapped, stops it, and checks the
 * result. Compares the target with its snapshot in every test.
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
/* Like tap_start, for a target that changes by itself; `changes`: enum procsnap_flag. */
void tap_start_changing(struct tap *tap, pid_t target, unsigned changes, const char *const extra[]);
/* Takes the snapshot, for a test that starts `run` itself. */
void tap_look(struct tap *tap, unsigned changes);
/* Waits until every allocator slot (a GOT slot, bound or not) of the modules whose path ends with
 * `module` is tapped, as the target's memory shows it, all other hooks are in place, and no process
 * traces the target. Fails the test if these modules have no allocator slot. */
void tap_wait_on(struct tap *tap, const char *module);
/* The condition of tap_wait_on, without that of the other hooks. Never waits. */
bool tap_is_on(pid_t target, const char *module);
/* Like tap_wait_on, but one tapped slot is enough: for programs that make GOT slots of their own.
 */
void tap_wait_any(struct tap *tap);
/* Has heaptap tapped all that the attach taps, so that the window is open? Never waits. */
bool tap_is_recording(pid_t target);
/* The word at `offset` of struct abi_control in the target; 0 also if the target has no image. */
uint64_t tap_control(pid_t target, size_t offset);
/* Sets the word at `offset` of struct abi_config of a running capture. */
void tap_configure(const struct tap *tap, size_t offset, uint64_t word);
/* An expected status: 0, or 7 if events were dropped, which can happen where a thread of the target
 * cannot sleep while it waits for the daemon. */
#define TAP_MAY_DROP (-1)
/* Sends SIGINT to heaptap, then calls tap_wait. */
json_t *tap_stop(struct tap *tap, int expected_status);
/* Waits for heaptap's end; returns the JSON that it printed (NULL: none). Compares the target with
 * the snapshot if heaptap refused the target or reports no leftover. If heaptap reports a leftover,
 * the test must call one of the next four functions. */
json_t *tap_wait(struct tap *tap, int expected_status);
/* Fails the test unless the target equals the snapshot, however heaptap ended. */
void tap_verify(struct tap *tap);
/* procsnap_verify_but with the tap's snapshot and target. */
void tap_verify_but(struct tap *tap, const char *const expected[]);
/* Like tap_verify, but waits up to `limit_ms` for a guardian to clean up. */
void tap_verify_soon(struct tap *tap, unsigned limit_ms);
/* Drops the snapshot without a comparison; `why` is the reason. */
void tap_drop(struct tap *tap, const char *why);
/* Checks the JSON of a detach that left nothing: level 0 or 1, all parts of the comparison equal,
 * and each tapped slot restored, or changed by the target. */
void tap_check_equal(const json_t *attach);
/* Like tap_check_equal, and no event may be dropped, and every tapped slot must be restored. */
void tap_check_clean(const json_t *attach);
/* Checks that recorded plus dropped calls equal the `calls` that the target counted. */
void tap_check_balance(const json_t *attach, uint64_t calls);
/* The PID of the guardian of a running capture. */
pid_t tap_guardian(const struct tap *tap);
/* Stops the guardian, then kills heaptap. Returns the guardian, which becomes a child of the test
 * and has not cleaned up yet. */
pid_t tap_kill_daemon(struct tap *tap);
/* Kills heaptap and its guardian: their changes stay in the target. */
void tap_abandon(struct tap *tap);
/* Have the guardians of ended heaptap processes ended? The test must be a PR_SET_CHILD_SUBREAPER,
 * so that they become its children, and `victim` its only other child. */
bool tap_guardian_is_done(pid_t victim);
