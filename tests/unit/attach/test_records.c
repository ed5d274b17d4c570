/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of a target that has ended before its first event.
 */
#include "attach/records.h"

#include "tests/support/child.h"
#include "tests/support/ht_check.h"

static void be_there(const void *arg)
{
	(void)arg;
	child_ready(0);
	child_wait();
}

/* The records that follow are in its trace nevertheless. */
START_TEST(who_has_ended_has_nothing_mapped)
{
	static struct session session;
	struct child child = child_fork(be_there, NULL);
	ck_no_err(proc_open(child.pid, &session.survey.proc));
	child_kill(&child);
	ck_no_err(records_put_mapped(&session));
	proc_close(&session.survey.proc);
}
END_TEST

HT_SUITE("attach/records", who_has_ended_has_nothing_mapped)
