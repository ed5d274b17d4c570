/* SPDX-License-Identifier: Apache-2.0
 *
 * The one page that a capture may leave behind: jump stubs that lead to the real functions, for
 * pointers that the program had stored. Takes it out when nothing leads there any more.
 */
#pragma once

#include "attach/stub/remote.h"
#include "attach/proof/escape.h"

struct tombstone_report {
	bool unused;	 /* nothing leads to the page */
	size_t slots;	 /* allocator slots that hold a stub's address */
	size_t pointers; /* words of the target's memory that do */
	raddr_t at;	 /* one of them; 0: none */
	struct escape_found found;
	uint64_t unread_bytes; /* of its memory that could not be searched for them */
	pid_t tid;	       /* a thread that is, or may be, in the page; 0: none */
	uint64_t stop_max_ns;
};

/* How long, and until when, to look. */
struct tombstone_look {
	uint64_t deadline_mono_ns;
	/* As in struct escape_search; may be NULL. */
	bool (*is_cancelled)(void *context);
	void *context;
};

/* What still leads to the page at `page`? Threads are looked at once each; addresses of stubs in
 * their registers and on their stacks are replaced by the real functions. HT_ERR_REFUSED when the
 * page is not one of ours, or the look was cancelled. */
HT_MUST_CHECK
struct ht_err *tombstone_examine(const struct proc *proc, raddr_t page,
	const struct tombstone_look *look, struct tombstone_report *ret);

/* Searches memory alone for what leads to the page: no thread is stopped, nothing is written. */
HT_MUST_CHECK
struct ht_err *tombstone_search(const struct proc *proc, raddr_t page,
	const struct tombstone_look *look, struct escape_found *ret);

/* How many of `count` places found earlier still lead to the page? */
HT_MUST_CHECK
struct ht_err *tombstone_still(
	const struct proc *proc, raddr_t page, const raddr_t *place, size_t count, size_t *ret);

/* Unmaps an unused page, by way of `slack`, and restores that. */
HT_MUST_CHECK
struct ht_err *tombstone_remove(const struct proc *proc, raddr_t page,
	const struct remote_slack *slack, uint64_t deadline_mono_ns, uint64_t *ret_stop_ns);
