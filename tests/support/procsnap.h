/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of a process from outside, and the difference of two snapshots in everything that
 * heaptap must leave unchanged. Reads /proc and the files of modules, and asks the kernel (kcmp,
 * sched_getattr, get_robust_list): taking a snapshot never stops a thread.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

struct procsnap;

/* Parts that a busy program changes by itself; the comparison then ignores such changes. */
enum procsnap_flag {
	/* as in a server: the comparison looks only for descriptors of heaptap */
	PROCSNAP_FDS_CHANGE = 1 << 0,
	PROCSNAP_THREADS_CHANGE = 1 << 1, /* compares only threads that are in both snapshots */
	PROCSNAP_MASKS_CHANGE = 1 << 2,	  /* signals that are blocked or pending vary */
	PROCSNAP_JIT = 1 << 3,		  /* anonymous executable memory comes and goes */
	PROCSNAP_MODULES_GROW = 1 << 4,	  /* it loads libraries */
	PROCSNAP_PLUG_CHANGES = 1 << 5,	  /* it loads and unloads libplug.so all the time */
	PROCSNAP_SYSTEM_CALLED = 1 << 6,  /* system(3) ignores signals for a moment */
	PROCSNAP_FILES_MOVE = 1 << 7,	  /* it reads or writes files */
	PROCSNAP_FILE_CHANGES = 1 << 9,	  /* it maps and unmaps parts of its memfd all the time */
	PROCSNAP_FILTERED = 1 << 10,	  /* it installs seccomp filters */
	/* The program maps and allocates nothing: compares all mappings. */
	PROCSNAP_STILL = 1 << 8,
	/* All that Node.js changes by itself. */
	PROCSNAP_NODE = PROCSNAP_JIT | PROCSNAP_MASKS_CHANGE | PROCSNAP_THREADS_CHANGE,
};

/* Takes a snapshot. A test that never compares its snapshot fails at its end. */
struct procsnap *procsnap_take(pid_t pid, unsigned flags);
void procsnap_destroy(struct procsnap *snap);
/* Frees a snapshot that needs no comparison, because the process has ended or keeps a known
 * leftover. */
void procsnap_drop(struct procsnap *snap);

/*
 * The differences, one line each; "": none. malloc'd. Compares mappings of files and their
 * permissions, executable memory, anonymous memory far from all other, pages of read-only mappings
 * that were written to, their VmFlags, descriptors, their flags, positions and locks (in the tables
 * of threads that have their own, too), threads, tracer, state, signal masks, pending signals,
 * scheduling, robust lists, credentials, capabilities, seccomp, limits, locked and pinned memory,
 * namespaces, cgroup, personality and the like, sockets that heaptap has named after the process,
 * the kernel's taint, the bytes of all program text, of constants and of words that the dynamic
 * linker protects, and every GOT word that was already bound. Anything new in `after` with
 * heaptap's name is a difference, too, whatever the flags are.
 */
char *procsnap_diff(const struct procsnap *before, const struct procsnap *after);

/* Lists what heaptap has in the process, one line each, or "" (malloc'd): mappings and descriptors
 * with heaptap's name, and threads that are traced or stopped. Reads no memory of the process. */
char *procsnap_ours(pid_t pid);
/* True if procsnap_ours would list nothing. */
bool procsnap_is_clean(pid_t pid);

/* Takes a second snapshot and fails the test if it differs from `before`. Frees `before`. */
void procsnap_verify(struct procsnap *before, pid_t pid);
/* Like procsnap_verify, but the difference must have one line for each text of `expected`
 * (NULL-terminated), and contain the texts in that order. */
void procsnap_verify_but(struct procsnap *before, pid_t pid, const char *const expected[]);
/* The texts of `expected` for the jump page, which a detach leaves if the program keeps an address
 * of it. */
#define PROCSNAP_PAGE "/memfd:heaptap-", "text ", "pages "
/* Polls until nothing differs, for example while a guardian cleans up. Fails the test after
 * `limit_ms`. The caller keeps `before`. */
void procsnap_wait(const struct procsnap *before, pid_t pid, unsigned limit_ms);
