/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/change.h"

#include "attach/proc/clock.h"

#define CHANGE_NS CLOCK_NS_PER_S

/* A held thread ends because its process ends or execs in another thread. The thread ends first. */
static enum proc_change await_change(const struct proc *proc, const struct ht_err *err)
{
	uint64_t deadline = clock_mono_ns() + CHANGE_NS;
	enum proc_change seen = proc_changed(proc);

	while (err && err->code == HT_ERR_TARGET_GONE && seen == PROC_SAME &&
		clock_mono_ns() < deadline) {
		clock_sleep_ns(CLOCK_NS_PER_MS);
		seen = proc_changed(proc);
	}
	return seen;
}

/* If the new program ended before heaptap looked, the kernel shows an end, not an exec. */
enum rec_end_reason change_reason(const struct change *change, enum proc_change seen)
{
	return seen == PROC_EXECED || change->has_execed ? REC_END_TARGET_EXEC
							 : REC_END_TARGET_EXIT;
}

bool change_noticed(struct change *change, struct ht_err **err)
{
	enum proc_change seen = change->is_gone ? PROC_SAME : await_change(change->proc, *err);
	if (seen != PROC_SAME) {
		change->is_gone = true;
		*change->ended = change_reason(change, seen);
	}
	if (change->is_gone) {
		ht_err_free(*err);
		*err = NULL;
	}
	return change->is_gone;
}
