/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/change.h"

#include "attach/proc/clock.h"

#define CHANGE_NS CLOCK_NS_PER_S

/* A thread that ends in our hands does so because its process ends, or execs in another thread: it
 * ends first. */
static enum proc_change await_change(const struct session *s, const struct ht_err *err)
{
	uint64_t deadline = clock_mono_ns() + CHANGE_NS;
	enum proc_change change = proc_changed(&s->survey.proc);

	while (err && err->code == HT_ERR_TARGET_GONE && change == PROC_SAME &&
		clock_mono_ns() < deadline) {
		clock_sleep_ns(CLOCK_NS_PER_MS);
		change = proc_changed(&s->survey.proc);
	}
	return change;
}

/* What it became may have ended, too, before anybody looked: that one is another program's end. */
enum rec_end_reason change_reason(const struct session *s, enum proc_change change)
{
	return change == PROC_EXECED || s->has_execed ? REC_END_TARGET_EXEC : REC_END_TARGET_EXIT;
}

bool change_noticed(struct session *s, struct ht_err **err)
{
	enum proc_change change = s->target_gone ? PROC_SAME : await_change(s, *err);
	if (change != PROC_SAME) {
		s->target_gone = true;
		s->report->ended = change_reason(s, change);
	}
	if (s->target_gone) {
		ht_err_free(*err);
		*err = NULL;
	}
	return s->target_gone;
}
