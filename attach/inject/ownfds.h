/* SPDX-License-Identifier: Apache-2.0
 *
 * Which descriptors of a process are ours: told by what they are, never by their number alone.
 */
#pragma once

#include "attach/inject/journal.h"
#include "attach/stub/stub.h"
#include "attach/proc/proc.h"

/*
 * Finds them. In the process that was attached to it is the agent's socket; `forked`: in a child
 * all that the first stub had open is looked for. HT_ERR_TARGET_GONE for a process that has ended.
 */
HT_MUST_CHECK
struct ht_err *ownfds_find(const struct proc *proc, const struct journal_header *header,
	bool forked, int ret[STUB_UNMAP_FDS], size_t *ret_count);

/* The same in the table of descriptors of thread `tid`, which may have copied what the process had
 * at any moment. None in that of a thread which has ended. */
HT_MUST_CHECK
struct ht_err *ownfds_find_of(const struct proc *proc, pid_t tid,
	const struct journal_header *header, int ret[STUB_UNMAP_FDS], size_t *ret_count);

/*
 * Marks the files behind these descriptors, so that the stub can tell them (STUB_IF_MARKED) from
 * what gets their numbers in the last moment. Those that are not ours any more are left out. `tid`
 * will run the stub; `own_table`: they are in its own.
 */
HT_MUST_CHECK
struct ht_err *ownfds_mark(const struct proc *proc, pid_t tid, bool own_table,
	const struct journal_header *header, int fd[STUB_UNMAP_FDS], size_t *count);

/* Calls `visit` for each open descriptor of the process (`tid` 0), and of each of its threads that
 * has a table of its own, with what it leads to. The first error is what is returned, and what
 * cannot be read is one; all others are visited nevertheless. */
typedef struct ht_err *ownfds_visitor(void *context, pid_t tid, int fd, const char *link);
HT_MUST_CHECK
struct ht_err *ownfds_visit(const struct proc *proc, ownfds_visitor *visit, void *context);

/* Is a descriptor so visited a heaptap's, whichever: its memory, or a socket whose other end it has
 * named, also when it is dead? One that is closed by now is not. HT_ERR_SYS: it cannot be looked
 * at. */
HT_MUST_CHECK
struct ht_err *ownfds_is_heaptaps(
	const struct proc *proc, pid_t tid, int fd, const char *link, bool *ret);
