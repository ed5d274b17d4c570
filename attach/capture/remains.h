/* SPDX-License-Identifier: Apache-2.0
 *
 * Names the leftovers of a capture: what stays, why, what still removes it, and the command that
 * does.
 */
#pragma once

#include "attach/capture/report.h"
#include "attach/inject/image.h"
#include "attach/stub/remote.h"
#include "attach/undo/guardian.h"

#define REMAINS_HEIR_BYTES 192u /* for what remains_add_heir adds */

/* What heaptap has written into a target; all are borrowed. */
struct remains {
	pid_t pid;
	const struct image *image;
	const struct remote_slack *slack;
	const struct guardian *guardian;
};

/* Appends what remains to `err`, which it takes; the result is HT_ERR_INCOMPLETE. */
HT_MUST_CHECK
struct ht_err *remains_add(struct ht_err *err, const char *left);
/* The same with the message of `left`, which it takes, too. NULL: nothing is left; returns `err`.
 */
HT_MUST_CHECK
struct ht_err *remains_add_of(struct ht_err *err, struct ht_err *left);
/* Appends to a reason whether the guardian goes on, and the command for when it has given up. */
void remains_add_heir(const struct remains *remains, char *why, size_t bytes);
/* Names what stays if the agent could not be removed; remains_add_heir has completed `why`.
 * HT_ERR_INCOMPLETE. */
HT_MUST_CHECK
struct ht_err *remains_of(const struct remains *remains, const char *why);
/* Names what the detach of `report` has left; NULL: nothing. */
HT_MUST_CHECK
struct ht_err *remains_of_detach(
	const struct remains *remains, const struct session_report *report);
