/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of the bootstrap stub: unused bytes behind the code of a module, and what they were.
 */
#pragma once

#include "attach/stub/choose.h"
#include "attach/stub/stub.h"
#include "attach/memory/proc_map.h"

/* The stub's place, prepared: the bytes that were there, to be written back when no thread is in
 * it. */
struct remote_slack {
	raddr_t addr;
	size_t bytes;
	raddr_t left; /* choose_slack's */
	uint8_t original[STUB_BYTES_MAX];
};

/* A stub that is not ours stands there: HT_ERR_REFUSED. */
HT_MUST_CHECK
struct ht_err *remote_slack_refuse(const struct proc *proc);
/* The place for a stub that makes so many near areas, and its bytes: only one that the program has
 * left as its file has it. HT_ERR_REFUSED when there is none, or a stub stands there. */
HT_MUST_CHECK
struct ht_err *remote_slack_choose(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, size_t near_count, struct remote_slack *ret);
/* Chooses it. Writes its bytes back once, so that the page is private to the target before any
 * thread is stopped. */
HT_MUST_CHECK
struct ht_err *remote_slack_prepare(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, size_t near_count, struct remote_slack *ret);
/* Is a stub in the target, running or not? Its code identifies it; `ret` is its place. */
bool remote_find_stub(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, struct choose_slack *ret);
/* For a place whose original bytes are lost: takes them from the module's file.
 * HT_ERR_INCOMPLETE when the file cannot be read. */
HT_MUST_CHECK
struct ht_err *remote_slack_from_file(const struct proc *proc, const struct proc_maps *maps,
	const struct choose_slack *place, struct remote_slack *ret);
/* Does a stub stand there? Only heaptap writes one: a module that was loaded in that place since,
 * or a child that was forked before or after, has something else there. */
HT_MUST_CHECK
struct ht_err *remote_slack_holds_stub(
	const struct proc *proc, const struct remote_slack *slack, bool *ret);
/* Writes the original bytes back, where a stub stands. No thread may have its PC, or a saved PC, in
 * there. */
HT_MUST_CHECK
struct ht_err *remote_slack_restore(const struct proc *proc, const struct remote_slack *slack);
