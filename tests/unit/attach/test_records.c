/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of a target that has ended before its first event.
 */
#include "attach/trace/records.h"

#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

/* The target's end is no error, so the records that follow still reach the trace. */
HT_TEST(a_target_that_has_ended_has_nothing_mapped)
{
	static struct survey survey;
	const struct records records = {.survey = &survey};
	struct child child = child_fork(child_idle, NULL);
	ck_no_err(proc_open(child.pid, &survey.proc));
	child_kill(&child);
	ck_no_err(records_put_mapped(&records));
	proc_close(&survey.proc);
}

HT_SUITE("attach/records")
