/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that were forked by the target while its slots were hooked. They run undisturbed, since
 * the agent in them only forwards calls, but they have the target's mappings, hooked slots and
 * descriptors. children_clean removes these.
 */
#pragma once

#include "attach/undo/recover.h"

#define CHILDREN_NAMED_MAX 16u

struct children_options {
	const struct proc *target; /* it may have ended */
	pid_t daemon_pid;	   /* of the heaptap that attached to the target */
	const struct journal *journal;
	const struct remote_slack *slack;
	uint64_t deadline_mono_ns;
};

/* Describes heaptap's changes that a process may have inherited by fork from a recorded process:
 * `next` leads to the recorded parents of that process. Borrows all pointers. */
struct heritage {
	pid_t daemon_pid; /* of the heaptap that attached to the recorded process */
	const struct journal *journal;
	const struct remote_slack *slack;
	const struct heritage *next; /* of the recorded process's own parent; NULL: none */
};

/* A child in which the jump page stays, and nothing else. */
struct children_page {
	pid_t pid;
	uint64_t start_ticks;
	raddr_t page;
};

struct children_report {
	size_t cleaned;
	size_t pages;				       /* with only the jump page left */
	struct children_page page[CHILDREN_NAMED_MAX]; /* the first of them */
	size_t left;				       /* with more than the jump page left */
	size_t pending;			 /* those of `left` that another try may clean */
	pid_t named[CHILDREN_NAMED_MAX]; /* the first of `left` */
	char why[600];			 /* why one of `left` could not be cleaned */
};

/*
 * Cleans all processes that the target forked, whatever their parent is by now. Repeats until
 * another try cannot clean any more of them, or until the deadline. The target must be clean
 * already, so that no new child inherits anything, or have ended. A stub that stayed in the
 * target's memory, because a child that shared it ended while it was being cleaned, is removed too.
 * `ret` tells what stayed; an error means that the processes could not be listed, and `ret` is not
 * set then.
 */
HT_MUST_CHECK
struct ht_err *children_clean(const struct children_options *options, struct children_report *ret);

/* The same for one child, which heaptap may be about to record: removes what the child inherited
 * from any process of `heritage`. If the child shares the memory of `parent`, an image in that
 * memory stays. */
void children_clean_inherited(const struct proc *parent, const struct heritage *heritage, pid_t pid,
	uint64_t deadline_mono_ns, struct children_report *ret);
#define CHILDREN_TEXT_BYTES 600u

/* Names, in one line, what stayed in which child. */
void children_name(const struct children_report *report, char ret[CHILDREN_TEXT_BYTES]);
