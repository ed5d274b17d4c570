/* SPDX-License-Identifier: Apache-2.0
 *
 * `heaptap cleanup`: takes out the page of jump stubs that a capture had to leave, when the program
 * does not use it any more.
 */
#pragma once

#include "attach/undo/tombstone.h"

enum cleanup_outcome {
	CLEANUP_NOTHING, /* no such page */
	CLEANUP_CAPTURE, /* a whole capture is there, alive or dead: not ours to touch */
	CLEANUP_REMOVED,
	CLEANUP_IN_USE, /* it stays; `found` says why */
};

struct cleanup_report {
	enum cleanup_outcome outcome;
	raddr_t page;
	pid_t daemon_pid; /* of the heaptap that left it */
	struct tombstone_report found;
	char where[160]; /* the mapping in which found.at lies */
};

/* Requires proc_open_mem and the lock. An error means that the page is still there. */
HT_MUST_CHECK
struct ht_err *cleanup_run(const struct proc *proc, struct cleanup_report *ret);
/* The same for as long as `look` says. */
HT_MUST_CHECK
struct ht_err *cleanup_look(
	const struct proc *proc, const struct tombstone_look *look, struct cleanup_report *ret);
