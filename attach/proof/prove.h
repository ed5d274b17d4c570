/* SPDX-License-Identifier: Apache-2.0
 *
 * The two proofs before anything is unmapped, each with its deadline: every thread is outside
 * (quiesce), and nothing points to what is unmapped (escape).
 */
#pragma once

#include "attach/proof/escape.h"
#include "attach/proof/quiesce.h"

struct prove {
	struct quiesce_options threads; /* prove_* set `rewrite` for each proof */
	raddr_t own_lo, own_hi;		/* the image: pointers within it do not count */
	uint64_t deadline_mono_ns;
	/* Called between passes, so that the agent's buffers go on being emptied; may be NULL. */
	void (*pump)(void *context);
	/* As in struct escape_search; may be NULL. */
	bool (*is_cancelled)(void *context);
	void *context;
};

struct prove_report {
	bool outside; /* every thread was seen outside before the deadline */
	struct quiesce_report threads;
	size_t pointers; /* to thunks, found in memory or in threads, and not rewritten */
	raddr_t pointer_at;
	struct escape_found found; /* what the last search with a result found */
	uint64_t unread_bytes;	   /* of memory that is swapped out or cannot be read; it may hold
				      pointers */
};

/* Repeats passes over the threads until each was seen outside once, or until the deadline; then the
 * same over each process that shares the memory. Sets `ret` only on success; `outside` false is a
 * success, too. */
HT_MUST_CHECK
struct ht_err *prove_outside(const struct prove *prove, struct prove_report *ret);

/* prove_outside, and then one search of memory while the threads run: enough for pointers that the
 * program stored for good. If it finds any pointer, prove_forgotten must follow. */
HT_MUST_CHECK
struct ht_err *prove_unkept(const struct prove *prove, struct prove_report *ret);

/*
 * As prove_outside, and proves that no pointer to a thunk is left: none in memory before the
 * threads are examined, none in the threads, none in memory afterwards. Pointers on stacks are
 * rewritten by the proof, or overwritten when the thread goes on, so another round may find
 * nothing. At most four rounds; another one begins only if the last one rewrote something or 200 ms
 * are not over, and if it would end before the deadline. Pointers that the program stored stay, and
 * are counted.
 */
HT_MUST_CHECK
struct ht_err *prove_forgotten(const struct prove *prove, struct prove_report *ret);
