/* SPDX-License-Identifier: Apache-2.0
 *
 * A control group of version 1 or 2, made for one test.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A kind of control group: the directory to make the group in (`root`), and the `text` to write to
 * its `file` at first. */
struct ctlgroup_kind {
	const char *root, *file, *text;
};

struct ctlgroup {
	char path[128];
	size_t kind; /* index into the kinds of ctlgroup_make */
};

/* Makes a control group of the first of `kinds` that this machine allows. False: none; prints that
 * the test is skipped. */
bool ctlgroup_make(struct ctlgroup *group, const struct ctlgroup_kind kinds[], size_t count);
/* Writes a file of the group. False: the kernel refused. */
bool ctlgroup_set(const struct ctlgroup *group, const char *file, const char *text);
void ctlgroup_move(const struct ctlgroup *group, pid_t pid);
/* Waits until all processes in the group have ended, then removes it. */
void ctlgroup_remove(const struct ctlgroup *group);
