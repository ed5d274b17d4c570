/* SPDX-License-Identifier: Apache-2.0
 *
 * `heaptap cleanup`: unmaps the jump page that a capture had to leave, when the program does not
 * use the page any more.
 */
#pragma once

#include "attach/undo/jump_page.h"

enum cleanup_outcome {
	CLEANUP_NOTHING, /* there is no jump page */
	CLEANUP_CAPTURE, /* the whole agent is mapped, with a heaptap or without: left alone */
	CLEANUP_REMOVED,
	CLEANUP_IN_USE, /* the page stays; `found` says why */
};

struct cleanup_report {
	enum cleanup_outcome outcome;
	raddr_t page;
	pid_t daemon_pid; /* of the heaptap that left the page */
	struct jump_page_report found;
	char where[160]; /* the mapping in which found.at lies */
};

/* Unmaps the page if nothing leads to it; waits at most 10 s for the proof. Requires proc_open_mem
 * and the lock. After an error `ret` is not set, and the page may be mapped or not. */
HT_MUST_CHECK
struct ht_err *cleanup_run(const struct proc *proc, struct cleanup_report *ret);
/* cleanup_run with the deadline and the cancellation of `look`. */
HT_MUST_CHECK
struct ht_err *cleanup_look(
	const struct proc *proc, const struct jump_page_look *look, struct cleanup_report *ret);
