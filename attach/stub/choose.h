/* SPDX-License-Identifier: Apache-2.0
 *
 * Where and by whom the bootstrap stub is run: the thread that a short stop disturbs least, the
 * slack behind a text segment, free address space. Looks only; changes nothing.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/memory/proc_map.h"
#include "attach/thread/stopcost.h"

struct choose_thread {
	pid_t tid;
	enum stopcost cost;
	/* The kernel gives it the process's signals, as long as it does not block them: the main
	 * thread, and SIGCHLD to who has forked. */
	bool addressed;
};

struct choose_threads {
	struct choose_thread *thread; /* best first */
	size_t count;
};

/* Threads in the order in which to try them. Those in vfork, or blocked where they cannot be
 * stopped, are left out. `filtered`: see stopcost.h. */
HT_MUST_CHECK
struct ht_err *choose_threads(const struct proc *proc, bool filtered, struct choose_threads *ret);
void choose_threads_deinit(struct choose_threads *threads);

struct choose_slack {
	raddr_t addr;
	size_t bytes;
	/* An address in there that stays on the first thread's stack, as the return address of a
	 * call that never returns (startcode.h); 0: none. */
	raddr_t left;
};

typedef bool choose_suits(void *context, const struct choose_slack *slack);

/* The longest run of file bytes behind a text segment, mapped r-x and unused, that `suits` accepts
 * (NULL: all do; it is called for longer runs only): `want` bytes of it. Only in modules that
 * are never unloaded: we come back to take everything out, and then something else would be there.
 * HT_ERR_REFUSED when none has as much. */
HT_MUST_CHECK
struct ht_err *choose_slack(const struct modules *modules, const struct proc_maps *maps,
	size_t want, choose_suits *suits, void *context, struct choose_slack *ret);

/* Do the bytes at [addr, addr + bytes) lie in such a place? */
bool choose_is_slack(
	const struct modules *modules, const struct proc_maps *maps, raddr_t addr, size_t bytes);

/* The address that is left where such a place begins at `addr`; 0: none. */
raddr_t choose_slack_left(const struct modules *modules, raddr_t addr);

/* Is there a place that choose_slack could have given, now or with other modules loaded, and that
 * `suits`? Asks for one after the other until one does. */
bool choose_slack_any(const struct modules *modules, const struct proc_maps *maps, size_t want,
	choose_suits *suits, void *context);

/* A free range of `bytes`, away from everything that grows. `attempt` varies it. */
HT_MUST_CHECK
struct ht_err *choose_range(
	const struct proc_maps *maps, uint64_t bytes, unsigned attempt, raddr_t *ret);
