/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that outlives the daemon. It is forked before the target's memory is read, and waits on
 * a socket. If the daemon dies before it has reported the end of its work, the guardian detaches
 * from the target. If the daemon hangs in a read of the target (attach/helper/pulse.h), the
 * guardian kills it first.
 */
#pragma once

#include "attach/inject/journal.h"
#include "attach/stub/remote.h"
#include "attach/proc/proc.h"
#include "attach/undo/linger_plan.h"

/* patience for guardian_dismiss */
#define GUARDIAN_PATIENCE_NS UINT64_C(10000000000)

struct guardian {
	int fd; /* socket to the guardian; -1: none */
	pid_t pid;
};

/* The type of linger_run: what a guardian that was dismissed to linger calls in a new process. */
typedef void guardian_linger(const struct linger_plan *plan, int ready_fd);

/* Forks the guardian. `journal` comes from journal_create, in shared memory, so the guardian
 * also reads entries that are written later. `linger` NULL: the guardian is never dismissed to
 * linger. */
HT_MUST_CHECK
struct ht_err *guardian_start(const struct proc *proc, const struct journal *journal,
	guardian_linger *linger, struct guardian *ret);
/* Sends the stub's place, before anything is written there. An error unless the guardian confirms
 * it. */
HT_MUST_CHECK
struct ht_err *guardian_tell_slack(struct guardian *guardian, const struct remote_slack *slack);
/* Sends the image's memfd, as soon as it exists. An error unless the guardian confirms it. */
HT_MUST_CHECK
struct ht_err *guardian_tell_image(struct guardian *guardian, int memfd);
/* As guardian_tell_image, without waiting for the confirmation: a thread of the target waits
 * meanwhile. */
HT_MUST_CHECK
struct ht_err *guardian_hand_image(struct guardian *guardian, int memfd);
/* Writes to `ret` what will remove the leftovers in the process `pid`; the guardian may have been
 * killed. */
void guardian_prospect(const struct guardian *guardian, pid_t pid, char *ret, size_t bytes);
/*
 * The guardian has nothing left to do: it exits, and is reaped. If it does not exit within
 * `patience_ns`, because it was stopped or gets no processor, it is killed and waited for as long
 * again, and then left to init; it does no work any more. Only time in which this process itself
 * gets a processor counts. False: it could not be killed, and may still be at work.
 */
bool guardian_dismiss(struct guardian *guardian, uint64_t patience_ns);
/* As guardian_dismiss, but before the guardian exits, it starts a process that lingers for the
 * pages of `plan`, if there are any, and waits until that process has closed the descriptors that
 * it inherited. */
bool guardian_dismiss_to_linger(
	struct guardian *guardian, const struct linger_plan *plan, uint64_t patience_ns);
/* The target could not be cleaned: the guardian goes on trying by itself. */
void guardian_leave(struct guardian *guardian);
