/* SPDX-License-Identifier: Apache-2.0
 *
 * One change that a process makes to itself between two looks of tests/support/procsnap, and
 * whether they tell of it.
 */
#pragma once

#include "format/base.h"

struct snapchange {
	bool (*make)(void);
	const char *seen;  /* what a line of the difference begins with; NULL: nothing differs */
	const char *field; /* of that line, which differs; NULL: any */
	bool root;	   /* only root can make it */
};

/* In the process that makes a change: "x" is written to it when that is made, by one that ends or
 * stops there, too. Then it is looked at as soon as it sleeps or is stopped. */
extern int snapchange_gate;

/* Fails the test unless the difference is as the change says; `number` is for the message. `flags`
 * are procsnap's; `prepare`, or NULL, is called in the process before the first look. */
void snapchange_check(
	const struct snapchange *change, bool (*prepare)(void), size_t number, unsigned flags);
/* Whether a line of the difference begins so, and this field (NULL: any) differs in it. */
bool snapchange_is_told(const char *difference, const char *beginning, const char *field);
