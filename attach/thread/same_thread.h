/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a thread pointer is still that of the thread that had it before: another that begins may
 * have the same one, at once, and the kernel may give it the same number.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/* Zero-initialised is none. */
struct same_thread {
	const struct proc *proc;
	const struct proc_maps *maps;
	int fd; /* of a file of the thread's own */
	bool is_open;
	pid_t task;	/* as we number it */
	uint32_t tid;	/* as the target does */
	raddr_t tid_at; /* where the thread has that, which the kernel clears when it ends */
};

/*
 * `tid_at`: its thread pointer and abi_config.tid_offset; the word and the tid may be anything.
 * `maps`: borrowed, may be refreshed between calls. False: it has ended, or has not that pointer,
 * or it cannot be told. Not of the first thread, which nobody follows.
 */
HT_MUST_CHECK
bool same_thread_open(struct same_thread *ret, const struct proc *proc,
	const struct proc_maps *maps, uint32_t tid, raddr_t tid_at);
/* Has it been that thread's all the time, up to a moment within this call? */
bool same_thread_lives(const struct same_thread *same);
void same_thread_close(struct same_thread *same); /* accepts a zeroed or closed one */
