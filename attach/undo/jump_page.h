/* SPDX-License-Identifier: Apache-2.0
 *
 * The jump page, which a capture may leave behind: its jumps lead to the real functions, for hook
 * addresses that the program has stored. Unmaps it when nothing leads to it any more.
 */
#pragma once

#include "attach/stub/remote.h"
#include "attach/proof/escape.h"

struct jump_page_report {
	bool unused;	 /* nothing leads to the page */
	size_t slots;	 /* GOT slots that hold an address in the page */
	size_t pointers; /* other words of the target's memory that do */
	raddr_t at;	 /* address of one such word; 0: none */
	struct escape_found found;
	uint64_t unread_bytes; /* of memory that could not be searched for such words */
	pid_t tid;	       /* a thread that is, or may be, in the page; 0: none */
	uint64_t stop_max_ns;
};

/* The deadline of a look, and how it can be cancelled. */
struct jump_page_look {
	uint64_t deadline_mono_ns;
	/* As in struct escape_search; may be NULL. */
	bool (*is_cancelled)(void *context);
	void *context;
};

/* Finds what still leads to the page at `page`. If no GOT slot does, examines each thread, and
 * replaces addresses of the page, in registers and on stacks, by the real functions. HT_ERR_REFUSED
 * if the page is not heaptap's or a capture uses it, or if the look was cancelled. */
HT_MUST_CHECK
struct ht_err *jump_page_examine(const struct proc *proc, raddr_t page,
	const struct jump_page_look *look, struct jump_page_report *ret);

/* Searches only memory for words that lead to the page: stops no thread, writes nothing. The
 * deadline of `look` does not apply. HT_ERR_REFUSED if the look was cancelled. */
HT_MUST_CHECK
struct ht_err *jump_page_search(const struct proc *proc, raddr_t page,
	const struct jump_page_look *look, struct escape_found *ret);

/* Counts those of the `count` places, found earlier, that still lead to the page. */
HT_MUST_CHECK
struct ht_err *jump_page_still(
	const struct proc *proc, raddr_t page, const raddr_t *place, size_t count, size_t *ret);

/* Unmaps an unused page by a stub at `slack`, and restores the original bytes there.
 * `*ret_stop_ns`: how long the last try held a thread; unchanged if none was held.
 * HT_ERR_INCOMPLETE: the page or the stub stays. */
HT_MUST_CHECK
struct ht_err *jump_page_remove(const struct proc *proc, raddr_t page,
	const struct remote_slack *slack, uint64_t deadline_mono_ns, uint64_t *ret_stop_ns);
