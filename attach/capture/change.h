/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices that the target has ended, or runs another program, while it is recorded.
 */
#pragma once

#include "attach/process/proc_open.h"
#include "format/record.h"

struct change {
	const struct proc *proc;
	enum rec_end_reason *ended; /* out: the reason of the end */
	bool is_gone;		    /* the target has ended or runs another program */
	bool has_execed;	    /* an exec was followed; the new program may have ended */
};

/* Has the target ended, or does it run another program? Then `err`, which the change caused, is
 * freed and set to NULL, and is_gone and *ended are set. If `*err` is HT_ERR_TARGET_GONE, waits up
 * to a second for the change to show. */
bool change_noticed(struct change *change, struct ht_err **err);
/* Returns the reason that the trace gives for the change `seen`. */
enum rec_end_reason change_reason(const struct change *change, enum proc_change seen);
