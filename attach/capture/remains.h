/* SPDX-License-Identifier: Apache-2.0
 *
 * Names the leftovers of a capture: what stays, why, what may still remove it, and the command that
 * removes it.
 */
#pragma once

#include "attach/capture/report.h"
#include "attach/inject/image.h"
#include "attach/stub/remote.h"
#include "attach/undo/guardian.h"

#define REMAINS_HEIR_BYTES 192u /* room for what remains_add_heir appends */

/* Everything that heaptap has written into a target; all borrowed. */
struct remains {
	pid_t pid;
	const struct image *image;
	const struct remote_slack *slack;
	const struct guardian *guardian;
};

/* Appends `left`, the name of what stays, to `err`, which it takes over; the result is
 * HT_ERR_INCOMPLETE. */
HT_MUST_CHECK
struct ht_err *remains_add(struct ht_err *err, const char *left);
/* As remains_add, with the message of `left`, which it takes over, too. `left` NULL: nothing stays;
 * returns `err`. */
HT_MUST_CHECK
struct ht_err *remains_add_of(struct ht_err *err, struct ht_err *left);
/* Appends to the reason `why`, of `bytes` bytes, whether the guardian goes on to clean the target,
 * and the command that cleans it after the guardian has given up. */
void remains_add_heir(const struct remains *remains, char *why, size_t bytes);
/* Returns HT_ERR_INCOMPLETE, which names what stays if the agent could not be removed. `why` is
 * complete: remains_add_heir was called. */
HT_MUST_CHECK
struct ht_err *remains_of(const struct remains *remains, const char *why);
/* Returns an error that names what the detach of `report` has left; NULL: nothing. */
HT_MUST_CHECK
struct ht_err *remains_of_detach(
	const struct remains *remains, const struct session_report *report);
