/* SPDX-License-Identifier: Apache-2.0
 *
 * The two proofs that come before anything is unmapped, each with its time: every thread is outside
 * (quiesce), and nothing points to what goes (escape).
 */
#pragma once

#include "attach/proof/escape.h"
#include "attach/proof/quiesce.h"

struct prove {
	struct quiesce_options threads; /* `rewrite` is set as each proof needs it */
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
	size_t pointers; /* to thunks, found in the target's memory and not rewritten */
	raddr_t pointer_at;
	struct escape_found found; /* by the last search that found any */
	uint64_t unread_bytes;	   /* of memory that is swapped out or cannot be read: what stands
				    there is not known */
};

/* Passes over the threads until each was seen outside once, or the deadline. */
HT_MUST_CHECK
struct ht_err *prove_outside(const struct prove *prove, struct prove_report *ret);

/* The same, and then memory is searched once while the threads run: enough for what the program has
 * stored for good. With any pointer found, prove_forgotten has to follow. */
HT_MUST_CHECK
struct ht_err *prove_unkept(const struct prove *prove, struct prove_report *ret);

/*
 * As prove_outside, and no pointer to a thunk is left: seen in memory before the threads were
 * looked at, in them, or in memory afterwards. What is found on stacks is rewritten by the proof
 * itself, or overwritten when its thread goes on, so that another round may find nothing: there is
 * one as long as something was rewritten, or for 200 ms, and none that would end after the
 * deadline. What the program stored stays, and is counted.
 */
HT_MUST_CHECK
struct ht_err *prove_forgotten(const struct prove *prove, struct prove_report *ret);
