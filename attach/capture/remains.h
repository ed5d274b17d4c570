/* SPDX-License-Identifier: Apache-2.0
 *
 * Words for what a capture could not take out: what it is, why, who still tries, and the command
 * that takes it out.
 */
#pragma once

#include "attach/capture/session_state.h"

#define REMAINS_HEIR_BYTES 192u /* for what remains_add_heir adds */

/* Of an error and of what is left in the target the second matters more: both are told. Takes
 * `err`. */
HT_MUST_CHECK
struct ht_err *remains_add(struct ht_err *err, const char *left);
/* The same of an error that says it, which it takes, too; NULL: nothing is left. */
HT_MUST_CHECK
struct ht_err *remains_add_of(struct ht_err *err, struct ht_err *left);
/* Adds to a reason who goes on, and what does it when he has given up. */
void remains_add_heir(const struct session *s, char *why, size_t bytes);
/* Names what stays where not even the agent could be taken out; `why` has its heir already.
 * HT_ERR_INCOMPLETE. */
HT_MUST_CHECK
struct ht_err *remains_of(const struct session *s, const char *why);
/* What the detach that has ended in s->report has left; NULL: nothing. */
HT_MUST_CHECK
struct ht_err *remains_of_detach(const struct session *s);
