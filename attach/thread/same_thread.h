/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a thread pointer still belongs to the same thread: a new thread may get the same pointer
 * at once, and from the kernel the same number.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/* Zero-initialised: none. */
struct same_thread {
	const struct proc *proc;
	const struct proc_maps *maps;
	int fd;		/* of one of the thread's files in /proc */
	pid_t task;	/* number in our PID namespace; 0: none, and `fd` is not open */
	uint32_t tid;	/* number in the target's PID namespace */
	raddr_t tid_at; /* where the thread keeps its number; the kernel clears it at the thread's
			   end */
};

/* `tid_at`: the thread pointer plus abi_config.tid_offset. The word there and `tid` may be
 * anything. `maps` is borrowed and may be refreshed between calls. False: the thread has ended, has
 * another pointer, or that is unknown. Always false for a main thread, which does not hand its
 * pointer on. */
HT_MUST_CHECK
bool same_thread_open(struct same_thread *ret, const struct proc *proc,
	const struct proc_maps *maps, uint32_t tid, raddr_t tid_at);
/* Has the pointer belonged to that thread all the time, up to a moment within this call? */
bool same_thread_lives(const struct same_thread *same);
void same_thread_close(struct same_thread *same); /* accepts a zeroed or closed one */
