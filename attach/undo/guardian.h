/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that outlives the daemon: forked before the target's memory is read, it waits on a
 * socket, and takes everything out of the target when the daemon dies before it has said that it is
 * done. A daemon that hangs in a read of the target (attach/helper/pulse.h) is killed by it.
 */
#pragma once

#include "attach/inject/journal.h"
#include "attach/stub/remote.h"
#include "attach/proc/proc.h"
#include "attach/undo/linger_plan.h"

/* For guardian_dismiss. */
#define GUARDIAN_PATIENCE_NS UINT64_C(10000000000)

struct guardian {
	int fd; /* to the guardian; -1: none */
	pid_t pid;
};

/* linger_run, which a guardian process calls when it was dismissed to linger. */
typedef void guardian_linger(const struct linger_plan *plan, int ready_fd);

/* Forks the guardian. `journal`: as journal_create made it; the guardian reads later entries, too.
 * `linger` NULL: this guardian is never dismissed to linger. */
HT_MUST_CHECK
struct ht_err *guardian_start(const struct proc *proc, const struct journal *journal,
	guardian_linger *linger, struct guardian *ret);
/* Tells it the stub's place, before that is written; an error unless it says that it has got it. */
HT_MUST_CHECK
struct ht_err *guardian_tell_slack(struct guardian *guardian, const struct remote_slack *slack);
/* Gives it the image's memfd, as soon as there is one; an error unless it has it. */
HT_MUST_CHECK
struct ht_err *guardian_tell_image(struct guardian *guardian, int memfd);
/* The same while a thread of the target waits: without a look at what it says. */
HT_MUST_CHECK
struct ht_err *guardian_hand_image(struct guardian *guardian, int memfd);
/* Describes what removes the leftovers in the process `pid`; the guardian may have been killed. */
void guardian_prospect(const struct guardian *guardian, pid_t pid, char *ret, size_t bytes);
/* Nothing is left to guard: it exits, and is reaped. One that does not (it was stopped, or it
 * gets no processor) within `patience_ns` of ours, in which a time that the machine gives to
 * neither of us does not count, is killed, waited for as long again, and then left to init: it
 * waited for us, and makes no call any more. False: it could not be killed either, and may be at
 * work. */
bool guardian_dismiss(struct guardian *guardian, uint64_t patience_ns);
/* The same, and before it exits it starts a process that lingers for the pages of `plan`, if there
 * are any, and has let go of all that is ours by then. */
bool guardian_dismiss_to_linger(
	struct guardian *guardian, const struct linger_plan *plan, uint64_t patience_ns);
/* We could not take everything out: it goes on trying by itself. */
void guardian_leave(struct guardian *guardian);
