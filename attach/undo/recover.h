/* SPDX-License-Identifier: Apache-2.0
 *
 * Removes what a dead daemon left in a target: finds the image by the name of its memfd, reads its
 * journal, and detaches. The guardian and `heaptap recover` use it.
 */
#pragma once

#include "attach/inject/ourmaps.h"
#include "attach/stub/remote.h"
#include "attach/undo/detach.h"

enum recover_outcome {
	RECOVER_NOTHING, /* there was nothing of ours */
	RECOVER_DONE,
	RECOVER_TOMBSTONE, /* the jump page stays */
	RECOVER_INCOMPLETE,
};

struct recover_report {
	enum recover_outcome outcome;
	struct ourmaps found;
	struct detach_report detach; /* zeroed unless an image was found */
};

struct recover_options {
	/* The image's memfd, which is duplicated, or -1 to open it through the target's mappings
	 * (needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE). */
	int memfd;
	/* The stub's place, if the journal in the image may not name it yet; else NULL. */
	const struct remote_slack *slack;
	/* The journal that the daemon kept, in memory shared with the caller. NULL: the journal in
	 * the image is used, if it agrees with what the kernel says. */
	const struct journal *own;
	uint64_t deadline_mono_ns; /* 0: half a minute from now */
};

/* Requires proc_open_mem and the lock of `proc`. RECOVER_INCOMPLETE in `ret` is no error. After
 * an error `ret` is not set; what is left in the target is unknown, and the call may be
 * repeated. */
HT_MUST_CHECK
struct ht_err *recover_run(
	const struct proc *proc, const struct recover_options *options, struct recover_report *ret);

/* For a process that has nothing of an image mapped, and may have been forked by the process that
 * `daemon_pid` attached to: does it have a stub or descriptors of ours? Changes nothing. An error
 * if that is unknown. Needs options->own. */
HT_MUST_CHECK
struct ht_err *recover_has_remains(const struct proc *proc, const struct recover_options *options,
	pid_t daemon_pid, bool *ret);

/* As recover_run, in a process forked by the one that `daemon_pid` attached to: it may have any
 * part of the image, and descriptors. Needs options->own, not options->memfd. */
HT_MUST_CHECK
struct ht_err *recover_forked(const struct proc *proc, const struct recover_options *options,
	pid_t daemon_pid, struct recover_report *ret);

/* Waits until every thread is proven outside of the stub's place, and restores its original bytes.
 * Waits until the deadline, and at least two seconds; after that the stub stays: HT_ERR_INCOMPLETE.
 * Requires proc_open_mem. */
HT_MUST_CHECK
struct ht_err *recover_slack(
	const struct proc *proc, const struct remote_slack *slack, uint64_t deadline_mono_ns);

/* Finds a stub whose place is recorded nowhere. If there is one, or if `wanted`, which prepares a
 * place for a new one, fills `space` and points `*ret` to it; otherwise `*ret` is unchanged. */
HT_MUST_CHECK
struct ht_err *recover_find_slack(const struct proc *proc, bool wanted, struct remote_slack *space,
	const struct remote_slack **ret);
