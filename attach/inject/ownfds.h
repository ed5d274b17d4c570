/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the descriptors of a process that are heaptap's: by the file behind them, never by their
 * number alone.
 */
#pragma once

#include "attach/inject/journal.h"
#include "attach/stub/stub.h"
#include "attach/proc/proc.h"

/* Finds heaptap's descriptors, at most STUB_UNMAP_FDS. In the target this is the agent's socket.
 * `forked`: in a child of the target, all descriptors that the first stub had open.
 * HT_ERR_TARGET_GONE if the process has ended. */
HT_MUST_CHECK
struct ht_err *ownfds_find(const struct proc *proc, const struct journal_header *header,
	bool forked, int ret[STUB_UNMAP_FDS], size_t *ret_count);

/* As ownfds_find, in the descriptor table of thread `tid`, which may be a copy of the process's
 * from any moment. Finds none if the thread has ended. */
HT_MUST_CHECK
struct ht_err *ownfds_find_of(const struct proc *proc, pid_t tid,
	const struct journal_header *header, int ret[STUB_UNMAP_FDS], size_t *ret_count);

/*
 * Marks the files behind these descriptors, so that the stub can distinguish them (STUB_IF_MARKED)
 * from files that get their numbers at the last moment. Removes descriptors from `fd` that are not
 * heaptap's any more. `tid`: the thread that will run the stub; `own_table`: the descriptors are in
 * its own table.
 */
HT_MUST_CHECK
struct ht_err *ownfds_mark(const struct proc *proc, pid_t tid, bool own_table,
	const struct journal_header *header, int fd[STUB_UNMAP_FDS], size_t *count);

/* Calls `visit` for each open descriptor of the process (`tid` 0), and of each thread with a table
 * of its own, with what the descriptor leads to. Goes on after errors and returns the first one; a
 * descriptor that cannot be read is an error. */
typedef struct ht_err *ownfds_visitor(void *context, pid_t tid, int fd, const char *link);
HT_MUST_CHECK
struct ht_err *ownfds_visit(const struct proc *proc, ownfds_visitor *visit, void *context);

/* Is a visited descriptor any heaptap's: its memfd, or a socket whose other end a heaptap has
 * named, even if that heaptap is dead? False if the descriptor was closed since. HT_ERR_SYS: it
 * cannot be examined. */
HT_MUST_CHECK
struct ht_err *ownfds_is_heaptaps(
	const struct proc *proc, pid_t tid, int fd, const char *link, bool *ret);
