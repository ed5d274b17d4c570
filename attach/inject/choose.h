/* SPDX-License-Identifier: Apache-2.0
 *
 * Where and by whom the bootstrap stub is run: the thread that a short stop disturbs least, the
 * slack behind a text segment, free address space. Looks only; changes nothing.
 */
#pragma once

#include "attach/elf/modules.h"

struct choose_threads {
	pid_t *tid; /* best first */
	size_t count;
};

/*
 * Threads in the order in which to try them: running ones, then those in calls that the kernel
 * restarts by itself, then those whose call has to be made again. Threads in vfork, or blocked
 * where they cannot be stopped, are left out.
 */
HT_MUST_CHECK
struct ht_err *choose_threads(const struct proc *proc, struct choose_threads *ret);
void choose_threads_deinit(struct choose_threads *threads);

struct choose_slack {
	raddr_t addr;
	size_t bytes;
};

/* The longest run of file bytes behind a text segment, mapped r-x and used by nobody: `want` bytes
 * of it. HT_ERR_REFUSED when no module has as much. */
HT_MUST_CHECK
struct ht_err *choose_slack(const struct modules *modules, const struct proc_maps *maps,
	size_t want, struct choose_slack *ret);

/* A free range of `bytes`, away from everything that grows. `attempt` varies it. */
HT_MUST_CHECK
struct ht_err *choose_range(
	const struct proc_maps *maps, uint64_t bytes, unsigned attempt, raddr_t *ret);
