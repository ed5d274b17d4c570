/* SPDX-License-Identifier: Apache-2.0
 *
 * The target ends or runs another program while it is recorded.
 */
#pragma once

#include "attach/process/proc_open.h"
#include "format/record.h"

struct change {
	const struct proc *proc;
	enum rec_end_reason *ended; /* where the reason of the end is written */
	bool is_gone;		    /* the target has ended or runs another program */
	bool has_execed;	    /* an exec was followed; the new program may have ended, too */
};

/* Has the target ended, or does it run another program? Then `err` is a consequence: the function
 * frees it and sets it to NULL, is_gone and *ended. After HT_ERR_TARGET_GONE it waits up to a
 * second for the change. */
bool change_noticed(struct change *change, struct ht_err **err);
/* The reason that a trace gives for `seen`. */
enum rec_end_reason change_reason(const struct change *change, enum proc_change seen);
