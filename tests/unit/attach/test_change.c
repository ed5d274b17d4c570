/* SPDX-License-Identifier: Apache-2.0
 *
 * If the target has ended, an error that came with that is dropped: the end becomes the capture's
 * end reason.
 */
#include "attach/capture/change.h"

#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

HT_TEST(an_error_of_a_process_that_runs_stays)
{
	struct proc proc;
	enum rec_end_reason ended = REC_END_DURATION;
	struct child child = child_fork(child_idle, NULL);
	ck_no_err(proc_open(child.pid, &proc));
	struct change change = {.proc = &proc, .ended = &ended};
	struct ht_err *err = ht_err_new(HT_ERR_INTERNAL, "x");
	ck_assert(!change_noticed(&change, &err));
	ck_assert_ptr_nonnull(err);
	ck_assert_int_eq(ended, REC_END_DURATION);
	ht_err_free(err);
	proc_close(&proc);
	child_kill(&child);
}

static void notice_end(bool has_execed, enum rec_end_reason expected)
{
	struct proc proc;
	enum rec_end_reason ended = REC_END_DURATION;
	struct child child = child_fork(child_idle, NULL);
	ck_no_err(proc_open(child.pid, &proc));
	child_kill(&child);
	struct change change = {.proc = &proc, .ended = &ended, .has_execed = has_execed};
	struct ht_err *err = ht_err_new(HT_ERR_TARGET_GONE, "x");
	ck_assert(change_noticed(&change, &err));
	ck_assert_ptr_null(err);
	ck_assert(change.is_gone);
	ck_assert_int_eq(ended, expected);
	proc_close(&proc);
}

HT_TEST(an_end_replaces_the_error)
{
	notice_end(false, REC_END_TARGET_EXIT);
}

HT_TEST(an_end_after_a_followed_exec_is_an_exec)
{
	notice_end(true, REC_END_TARGET_EXEC);
}

HT_SUITE("attach/change")
