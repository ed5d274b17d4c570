/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes out what a dead daemon left in a target: finds the image by the name of its memfd, reads
 * its journal, and detaches. Used by the guardian and by `heaptap recover`.
 */
#pragma once

#include "attach/inject/detach.h"
#include "attach/inject/remote.h"

enum recover_outcome {
	RECOVER_NOTHING, /* nothing of ours was there */
	RECOVER_DONE,
	RECOVER_TOMBSTONE, /* one page of jump stubs stays */
	RECOVER_INCOMPLETE,
};

struct recover_report {
	enum recover_outcome outcome;
	struct detach_report detach;
};

/* What of ours is mapped in the target? */
struct recover_found {
	bool image;	/* a whole image */
	bool tombstone; /* only a thunk page */
	raddr_t base;
	pid_t daemon_pid; /* as the memfd's name says */
};

HT_MUST_CHECK
struct ht_err *recover_find(const struct proc *proc, struct recover_found *ret);

/*
 * `memfd`: of the image, or -1 to open it through the target's mappings (needs CAP_SYS_ADMIN or
 * CAP_CHECKPOINT_RESTORE). `slack`: the stub's place when the image's journal may not know it yet;
 * NULL.
 */
HT_MUST_CHECK
struct ht_err *recover_run(const struct proc *proc, int memfd, const struct remote_slack *slack,
	struct recover_report *ret);
