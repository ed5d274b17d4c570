/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that were forked by the target while it was tapped: they run clean, the agent in them
 * only forwards calls, but they have its mappings, tapped slots, descriptors. Here all of it is
 * taken out of them.
 */
#pragma once

#include "attach/undo/recover.h"

#define CHILDREN_NAMED_MAX 16u

struct children_options {
	const struct proc *target; /* it may have ended */
	pid_t daemon_pid;	   /* that attached to it */
	const struct journal *journal;
	const struct remote_slack *slack;
	uint64_t deadline_mono_ns;
};

/* What a process may have got by fork from one that was tapped, or from that one's parents. */
struct heritage {
	pid_t daemon_pid; /* that attached to it */
	const struct journal *journal;
	const struct remote_slack *slack;
	const struct heritage *next; /* of its parent; NULL */
};

/* A child in which the jump page stays, and nothing else. */
struct children_page {
	pid_t pid;
	uint64_t start_ticks;
	raddr_t page;
};

struct children_report {
	size_t cleaned;
	size_t pages;				       /* those in which only the jump page stays */
	struct children_page page[CHILDREN_NAMED_MAX]; /* the first of them */
	size_t left;				       /* those in which more stays */
	size_t pending;			 /* of these, those with which another try may help */
	pid_t named[CHILDREN_NAMED_MAX]; /* the first of them */
	char why[600];			 /* about one of them */
};

/*
 * Looks for them, whosever children they are by now, until none is left or the deadline. The target
 * must have nothing left to inherit, or have ended. What is done in children that share its memory
 * is taken out of that in any case.
 */
HT_MUST_CHECK
struct ht_err *children_clean(const struct children_options *options, struct children_report *ret);

/* The same for one child, which another tap may follow in: takes out what it got from any of them.
 * `parent` is the process that it must not share its memory with. */
void children_clean_inherited(const struct proc *parent, const struct heritage *heritage, pid_t pid,
	uint64_t deadline_mono_ns, struct children_report *ret);
#define CHILDREN_TEXT_BYTES 600u

/* What stayed in which of them, in one line. */
void children_name(const struct children_report *report, char ret[CHILDREN_TEXT_BYTES]);
