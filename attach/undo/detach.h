/* SPDX-License-Identifier: Apache-2.0
 *
 * Detaches: thunks forward, slots are restored, every thread is proven outside, memory is searched
 * for copied hook addresses, everything is unmapped, the stub's place is restored. A normal end,
 * the guardian and `heaptap recover` take the same steps. Every step may be repeated.
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
	/* The modules as the caller last read them: their files are not read again. NULL:
	 * unknown. */
	const struct modules *modules;
	/* A thread may have a seccomp filter: see struct tracee. */
	bool suspend_seccomp;
	uint64_t deadline_mono_ns;
	/* Called again and again while the detach waits, to go on emptying the agent's buffers; may
	 * be NULL. */
	void (*pump)(void *context);
	void *context;
};

enum detach_level {
	DETACH_PROVEN,	   /* 0: nothing is left */
	DETACH_RETRIED,	   /* 1: nothing is left, but the proof took more than a second */
	DETACH_TOMBSTONE,  /* 2: the jump page stays */
	DETACH_INCOMPLETE, /* 3: the agent stays mapped and only forwards calls */
};

struct detach_report {
	enum detach_level level;
	struct patch_report patch;
	struct quiesce_report quiesce;
	size_t escaped;	       /* function pointers to thunks that were found and not replaced */
	uint64_t unread_bytes; /* not searched: swapped out or not readable */
	raddr_t escaped_at;
	struct escape_found found; /* where these pointers are */
	uint64_t stop_max_ns;
	char why[600]; /* for levels 2 and 3 */
};

/* Must come first. Disables the hooks and restores the slots: from here on the agent only forwards
 * calls. After an error some slots may still lead to hooks; the call may be repeated. */
HT_MUST_CHECK
struct ht_err *detach_untap(struct detach *detach, struct detach_report *ret);

/* Proves, unmaps and restores. `ret` is that of detach_untap, continued. Levels 2 and 3 are not
 * errors. After level 0 or 1 the image is not mapped in the target any more; its memfd and the
 * daemon's mapping still hold the data. */
HT_MUST_CHECK
struct ht_err *detach_unmap(struct detach *detach, struct detach_report *ret);

/* For a forked process that has no part of the image mapped: closes the descriptors that it
 * inherited, and restores the stub's place. `ret_any`: there was anything to close or restore. */
HT_MUST_CHECK
struct ht_err *detach_remains(struct detach *detach, bool *ret_any);

/* Waits until no thread is in the stub's place, and restores the original bytes there. Waits until
 * the deadline, and at least two seconds. HT_ERR_INCOMPLETE: a thread may still return into the
 * stub, which stays. */
struct remote_slack;
HT_MUST_CHECK
struct ht_err *detach_slack(const struct proc *proc, const struct remote_slack *slack,
	bool suspend_seccomp, uint64_t deadline_mono_ns);
