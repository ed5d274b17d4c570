/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/remains.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/memory/ours.h"

struct ht_err *remains_add(struct ht_err *err, const char *left)
{
	struct ht_err *both = ht_err_new(HT_ERR_INCOMPLETE, "%s; and %s", err->message, left);
	ht_err_free(err);
	return both;
}

struct ht_err *remains_add_of(struct ht_err *err, struct ht_err *left)
{
	if (left)
		err = remains_add(err, left->message);
	ht_err_free(left);
	return err;
}

void remains_add_heir(const struct remains *remains, char *why, size_t bytes)
{
	char heir[REMAINS_HEIR_BYTES];
	size_t length = strlen(why);
	guardian_prospect(remains->guardian, remains->pid, heir, sizeof(heir));
	snprintf(why + length, bytes - length, "; %s", heir);
}

struct ht_err *remains_of(const struct remains *remains, const char *why)
{
	pid_t pid = remains->pid;
	if (remains->image->local)
		return ht_err_new(HT_ERR_INCOMPLETE,
			"heaptap's code, mapped at %lx, or its attach code, at %lx, stays in "
			"process %d: %s",
			(unsigned long)remains->image->base, (unsigned long)remains->slack->addr,
			pid, why);
	return ht_err_new(HT_ERR_INCOMPLETE,
		"the attach code behind the code at %lx, and memory named " OURS_FILE
		"%d, may stay in process %d: %s",
		(unsigned long)remains->slack->addr, getpid(), pid, why);
}

struct ht_err *remains_of_detach(const struct remains *remains, const struct session_report *report)
{
	if (!report->detached || !report->why[0])
		return NULL;
	if (report->level == DETACH_INCOMPLETE)
		return remains_of(remains, report->why);
	/* `why` names the page and what keeps it. */
	if (report->level == DETACH_TOMBSTONE)
		return ht_err_new(HT_ERR_INCOMPLETE, "%s", report->why);
	return ht_err_new(HT_ERR_INCOMPLETE,
		"heaptap has left process %d again, but something is not as it was: %s; `heaptap "
		"verify -p %d` checks once more",
		remains->pid, report->why, remains->pid);
}
