/* SPDX-License-Identifier: Apache-2.0
 *
 * A control group of version 1 or 2, made for one test.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Where a group of the wanted kind may be made, and a file of it with what that is given first. */
struct ctlgroup_kind {
	const char *root, *file, *text;
};

struct ctlgroup {
	char path[128];
	size_t kind; /* which of the kinds it is */
};

/* Makes a control group of the first of `kinds` that this machine allows. False: none; prints that
 * the test is skipped. */
bool ctlgroup_make(struct ctlgroup *group, const struct ctlgroup_kind kinds[], size_t count);
/* Writes a file of the group. False: it was not taken. */
bool ctlgroup_set(const struct ctlgroup *group, const char *file, const char *text);
void ctlgroup_move(const struct ctlgroup *group, pid_t pid);
/* As soon as all in it have ended. */
void ctlgroup_remove(const struct ctlgroup *group);
