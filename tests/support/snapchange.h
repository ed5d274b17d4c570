/* SPDX-License-Identifier: Apache-2.0
 *
 * One change that a process makes to itself between two snapshots (tests/support/procsnap), and
 * whether their difference shows it.
 */
#pragma once

#include "format/base.h"

struct snapchange {
	bool (*make)(void);
	const char *seen;  /* what a line of the difference begins with; NULL: nothing differs */
	const char *field; /* the field of that line that differs; NULL: any */
	bool root;	   /* only root can make it */
};

/* A descriptor in the process that makes the change. snapchange writes "x" to it after the change;
 * a change that ends or stops the process writes the "x" itself. The test then takes the second
 * snapshot once the process sleeps or is stopped. */
extern int snapchange_gate;

/* Fails the test unless the difference is as the change says; `number` is for the message. `flags`
 * are procsnap's; `prepare`, or NULL, is called in the process before the first snapshot. */
void snapchange_check(
	const struct snapchange *change, bool (*prepare)(void), size_t number, unsigned flags);
/* True if a line of the difference has this beginning and differs in this field (NULL: any). */
bool snapchange_is_shown(const char *difference, const char *beginning, const char *field);
