/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes out what a dead daemon left in a target: finds the image by the name of its memfd, reads
 * its journal, and detaches. Used by the guardian and by `heaptap recover`.
 */
#pragma once

#include "attach/inject/ourmaps.h"
#include "attach/stub/remote.h"
#include "attach/undo/detach.h"

enum recover_outcome {
	RECOVER_NOTHING, /* nothing of ours was there */
	RECOVER_DONE,
	RECOVER_TOMBSTONE, /* one page of jump stubs stays */
	RECOVER_INCOMPLETE,
};

struct recover_report {
	enum recover_outcome outcome;
	struct ourmaps found;
	struct detach_report detach; /* zeroed unless an image was found */
};

struct recover_options {
	/* The image's, or -1 to open it through the target's mappings (needs CAP_SYS_ADMIN or
	 * CAP_CHECKPOINT_RESTORE). */
	int memfd;
	/* The stub's place, when the image's journal may not know it yet; NULL. */
	const struct remote_slack *slack;
	/* The journal that the daemon kept, in memory shared with us; NULL: what stands in the
	 * image is used, if it agrees with what the kernel says. */
	const struct journal *own;
	uint64_t deadline_mono_ns; /* 0: half a minute from now */
};

HT_MUST_CHECK
struct ht_err *recover_run(
	const struct proc *proc, const struct recover_options *options, struct recover_report *ret);

/* Has a process that has nothing of an image mapped, and may have been forked by the one that
 * `daemon_pid` attached to, anything else of ours? A look only; what cannot be told is an error. */
HT_MUST_CHECK
struct ht_err *recover_has_remains(const struct proc *proc, const struct recover_options *options,
	pid_t daemon_pid, bool *ret);

/* As recover_run, in a process forked by the one that `daemon_pid` attached to: it may have any
 * part of the image, and descriptors. `own` is needed, `memfd` not. */
HT_MUST_CHECK
struct ht_err *recover_forked(const struct proc *proc, const struct recover_options *options,
	pid_t daemon_pid, struct recover_report *ret);

/* Puts back what was in the stub's place when every thread is proven outside it, or leaves it, as
 * HT_ERR_INCOMPLETE says, after the deadline or two seconds. Requires proc_open_mem. */
HT_MUST_CHECK
struct ht_err *recover_slack(
	const struct proc *proc, const struct remote_slack *slack, uint64_t deadline_mono_ns);

/* For a stub whose place no process knows any more: `ret` becomes `space` if there is a stub, or if
 * a place for one is `wanted`. */
HT_MUST_CHECK
struct ht_err *recover_find_slack(const struct proc *proc, bool wanted, struct remote_slack *space,
	const struct remote_slack **ret);
