/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/standstill.h"

#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/cgroup.h"

#define LOOKS	10u
#define LOOK_NS (10 * CLOCK_NS_PER_MS)

struct common {
	bool traced, stopped, waiting;
};

/* Keeps in `common` only what is true of this thread, too. */
static void keep_common(const struct proc *proc, pid_t tid, struct common *common)
{
	struct proc_status status;
	if (ht_err_drop(proc_status(proc, tid, &status))) {
		*common = (struct common){0};
		return;
	}
	common->traced &= status.tracer != 0;
	common->stopped &= status.state == 'T';
	common->waiting &= status.state == 'D';
}

static struct ht_err *find_common(const struct proc *proc, struct common *ret)
{
	struct proc_tids tids;
	HT_TRY(proc_tids_read(proc, &tids));
	*ret = (struct common){true, true, true};
	for (size_t i = 0; i < tids.count; i++)
		keep_common(proc, tids.tid[i], ret);
	proc_tids_deinit(&tids);
	return NULL;
}

static const char *reason_now(const struct proc *proc)
{
	struct common common = {0};

	if (cgroup_is_frozen(proc))
		return "its control group is frozen; thaw it";
	ht_err_free(find_common(proc, &common));
	return common.traced ? "another tracer holds all its threads (a debugger, strace); end it"
	       : common.stopped ? "it is stopped (SIGSTOP, Ctrl-Z); continue it (kill -CONT)"
	       : common.waiting ? "all its threads are in uninterruptible calls (vfork, a file "
				  "system that stalls)"
				: NULL;
}

/* A thread that heaptap has just released takes a moment to stop like the others. */
const char *standstill_reason(const struct proc *proc)
{
	const char *reason = reason_now(proc);
	for (unsigned looks = 1; !reason && looks < LOOKS; looks++) {
		clock_sleep_ns(LOOK_NS);
		reason = reason_now(proc);
	}
	return reason;
}
