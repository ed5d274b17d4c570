/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the tap out: thunks forward, slots are restored, every thread is proven outside, escaped
 * addresses are looked for, everything is unmapped, the stub's place is restored. The same steps
 * for a normal end, for the guardian and for `heaptap recover`. Every step may be repeated.
 */
#pragma once

#include "attach/got/slots.h"
#include "attach/inject/image.h"
#include "attach/inject/journal.h"
#include "attach/inject/patch.h"
#include "attach/proof/escape.h"
#include "attach/proof/quiesce.h"

struct detach {
	const struct proc *proc;
	struct image *image;
	struct journal journal;
	/* The caller's, as it last knew them: files of these are not read again. NULL: unknown. */
	const struct modules *modules;
	bool suspend_seccomp;
	uint64_t deadline_mono_ns;
	/* Called between passes, so that the agent's buffers go on being emptied; may be NULL. */
	void (*pump)(void *context);
	void *context;
};

enum detach_level {
	DETACH_PROVEN,	   /* 0: nothing is left */
	DETACH_RETRIED,	   /* 1: nothing is left, but the proof took more than a second */
	DETACH_TOMBSTONE,  /* 2: one page of jump stubs stays */
	DETACH_INCOMPLETE, /* 3: the agent stays mapped and only forwards calls */
};

struct detach_report {
	enum detach_level level;
	struct patch_report patch;
	struct quiesce_report quiesce;
	size_t escaped;	       /* function pointers to thunks found in the target's memory */
	uint64_t unread_bytes; /* of its memory, swapped out or not to be read, were not searched */
	raddr_t escaped_at;
	struct escape_found found; /* where they stand */
	uint64_t stop_max_ns;
	char why[600]; /* for levels 2 and 3 */
};

/* Steps that change nothing for good: from here on the agent is out of the way. Must come first. */
HT_MUST_CHECK
struct ht_err *detach_untap(struct detach *detach, struct detach_report *ret);

/*
 * Proof, unmapping, restoring. `ret` goes on from detach_untap. Level 2 and 3 are not errors. After
 * level 0 or 1 the image is unmapped in the target; its memfd and the daemon's mapping still hold
 * the data.
 */
HT_MUST_CHECK
struct ht_err *detach_unmap(struct detach *detach, struct detach_report *ret);

/* In a forked process that has nothing of the image mapped: closes what it inherited of the
 * descriptors, and restores the stub's place. Found nothing: false in `ret_any`. */
HT_MUST_CHECK
struct ht_err *detach_remains(struct detach *detach, bool *ret_any);

/* When nothing of the image is mapped: waits until no thread is in the stub's place, and restores
 * it. It is the last step of all, and has two seconds even where the deadline is over. */
struct remote_slack;
HT_MUST_CHECK
struct ht_err *detach_slack(const struct proc *proc, const struct remote_slack *slack,
	bool suspend_seccomp, uint64_t deadline_mono_ns);
