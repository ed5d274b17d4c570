/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the thread that runs the bootstrap stub, and the place: the thread that a short stop
 * disturbs least, unused bytes behind a text segment, free address space. Reads only.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/memory/proc_map.h"
#include "attach/thread/stopcost.h"

struct choose_thread {
	pid_t tid;
	enum stopcost cost;
	/* The kernel gives signals of the process to this thread, unless it blocks them: to the
	 * main thread, and SIGCHLD to a thread that has forked. */
	bool addressed;
};

struct choose_threads {
	struct choose_thread *thread; /* best first */
	size_t count;
};

/* Lists the threads, the best first. Threads in vfork, and threads that are blocked where they
 * cannot be stopped, are left out. `filtered`: see stopcost.h. Free with choose_threads_deinit. */
HT_MUST_CHECK
struct ht_err *choose_threads(const struct proc *proc, bool filtered, struct choose_threads *ret);
void choose_threads_deinit(struct choose_threads *threads);

struct choose_slack {
	raddr_t addr;
	size_t bytes;
	/* An address in this place that stays on the first thread's stack, as the return address of
	 * a call that never returns (startcode.h); 0: none. */
	raddr_t left;
};

typedef bool choose_suits(void *context, const struct choose_slack *slack);

/*
 * Finds the longest range of file bytes behind a text segment, mapped r-x and unused, that `suits`
 * accepts, and returns `want` bytes of it. `suits` is called only for a range that is longer than
 * the best so far; NULL: accepts all. Takes start code that never runs again if no such range is
 * long enough. Searches only modules that are never unloaded, since heaptap returns to the place
 * for the detach. HT_ERR_REFUSED if no range is long enough.
 */
HT_MUST_CHECK
struct ht_err *choose_slack(const struct modules *modules, const struct proc_maps *maps,
	size_t want, choose_suits *suits, void *context, struct choose_slack *ret);

/* Are the bytes at [addr, addr + bytes) in a place that can hold a stub? */
bool choose_is_slack(
	const struct modules *modules, const struct proc_maps *maps, raddr_t addr, size_t bytes);

/* If a place of start code begins at `addr`: the return address into it that stays on the stack; 0:
 * none. */
raddr_t choose_slack_left(const struct modules *modules, raddr_t addr);

/* Is there a place that `suits` accepts, among all that choose_slack could have chosen, now or with
 * other modules loaded? Calls `suits` for each until it accepts one. */
bool choose_slack_any(const struct modules *modules, const struct proc_maps *maps, size_t want,
	choose_suits *suits, void *context);

/* Finds a free range of `bytes`, at least 256 MiB from mappings, which may grow. The result is
 * random; `attempt` varies it if the kernel gives no random numbers. HT_ERR_REFUSED if there is
 * none. */
HT_MUST_CHECK
struct ht_err *choose_range(
	const struct proc_maps *maps, uint64_t bytes, unsigned attempt, raddr_t *ret);
