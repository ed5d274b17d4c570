/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of the bootstrap stub, unused bytes behind a module's code, and its original bytes.
 */
#pragma once

#include "attach/stub/choose.h"
#include "attach/stub/stub.h"
#include "attach/memory/proc_map.h"

/* A prepared place, with the original bytes, which are written back when no thread is in the
 * place. */
struct remote_slack {
	raddr_t addr;
	size_t bytes;
	raddr_t left; /* as in struct choose_slack */
	uint8_t original[STUB_BYTES_MAX];
};

/* Returns HT_ERR_REFUSED: there is another heaptap's stub in the target. */
HT_MUST_CHECK
struct ht_err *remote_slack_refuse(const struct proc *proc);
/* Chooses a place for a stub that maps `near_count` near areas, and reads its bytes. Accepts only
 * bytes that are as in the file. HT_ERR_REFUSED if there is no place, or a stub is there. */
HT_MUST_CHECK
struct ht_err *remote_slack_choose(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, size_t near_count, struct remote_slack *ret);
/* As remote_slack_choose. Also writes the bytes back once, so that the page is private to the
 * target before any thread is stopped. */
HT_MUST_CHECK
struct ht_err *remote_slack_prepare(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, size_t near_count, struct remote_slack *ret);
/* Is a stub in the target, running or not? If so, `ret` is its place. A stub is identified by its
 * code. */
bool remote_find_stub(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, struct choose_slack *ret);
/* For a place whose original bytes are unknown: reads them from the module's file.
 * HT_ERR_INCOMPLETE if the file cannot be opened. */
HT_MUST_CHECK
struct ht_err *remote_slack_from_file(const struct proc *proc, const struct proc_maps *maps,
	const struct choose_slack *place, struct remote_slack *ret);
/* Is a stub in this place? Only heaptap writes one: if another module was loaded there since, or a
 * child was forked before or after the stub, the bytes are others. */
HT_MUST_CHECK
struct ht_err *remote_slack_holds_stub(
	const struct proc *proc, const struct remote_slack *slack, bool *ret);
/* Writes the original bytes back if a stub is in the place. No thread may have its PC, or a saved
 * PC, in there. */
HT_MUST_CHECK
struct ht_err *remote_slack_restore(const struct proc *proc, const struct remote_slack *slack);
