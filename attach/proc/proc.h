/* SPDX-License-Identifier: Apache-2.0
 *
 * What /proc says about a process: identity, status, mappings, threads. Reads only; no ptrace. All
 * text of /proc is hostile input (names contain anything). A process that is gone gives
 * HT_ERR_TARGET_GONE from every function here.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/* Identity of a process, pinned: it cannot be mistaken for a later one with the same number. A
 * process whose main thread has ended while others go on (a zombie leader) is used through them. */
struct proc {
	pid_t pid;
	int pidfd;
	int dir_fd;	/* /proc/PID, O_PATH | O_DIRECTORY */
	int mem_fd;	/* /proc/PID/mem, O_RDWR: bound to the address space at open; -1 before
			   proc_open_mem */
	raddr_t random; /* of that memory, where each program has 16 random bytes; 0: not known */
	uint64_t start_ticks; /* field 22 of stat */
	uint64_t exe_dev, exe_ino;
};

/* Opens the process `pid`. HT_ERR_REFUSED: no such process (says so), a thread id, a kernel thread,
 * a zombie. */
HT_MUST_CHECK
struct ht_err *proc_open(pid_t pid, struct proc *ret);
/* Opens /proc/PID/mem. HT_ERR_PERMISSION names the rule (uid, capability, yama, dumpable). */
HT_MUST_CHECK
struct ht_err *proc_open_mem(struct proc *proc);
void proc_close(struct proc *proc); /* accepts a zeroed or closed one */

enum proc_change { PROC_SAME, PROC_EXITED, PROC_EXECED };
/* Is it still the process and the program that was opened? An exec of the same file is noticed only
 * after proc_open_mem. */
enum proc_change proc_changed(const struct proc *proc);
/* The same as an error: HT_ERR_TARGET_GONE unless it is PROC_SAME. */
HT_MUST_CHECK
struct ht_err *proc_check_same(const struct proc *proc);

/* Its main thread, or another if that has ended; 0: none lives. */
HT_MUST_CHECK
struct ht_err *proc_living_tid(const struct proc *proc, pid_t *ret);
/* Has it a thread of that number, which may be past its end? What could not be looked at is an
 * error, and never a "no". */
HT_MUST_CHECK
struct ht_err *proc_has_thread(const struct proc *proc, pid_t tid, bool *ret);
/* Does the thread run code of the kernel's alone, as the workers of io_uring and vhost do? None of
 * the program's is ever in it, and one that is stopped ends what it does with an error. False for a
 * thread that is gone. */
HT_MUST_CHECK
struct ht_err *proc_is_worker(const struct proc *proc, pid_t tid, bool *ret);

struct proc_status {
	char comm[64];
	char state; /* R S D T t Z X I */
	pid_t ppid;
	pid_t tracer; /* 0: none */
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;
	unsigned threads;
	int seccomp; /* 0 none, 1 strict, 2 filter */
	bool no_new_privs;
	pid_t ns_tid;  /* innermost number of NSpid */
	bool ns_alone; /* which has no other: it lives in our namespace, all its threads do */
	uint64_t sig_blk, sig_ign, sig_cgt, sig_pnd, shd_pnd;
	uint64_t rss_bytes, vm_bytes, data_bytes, locked_bytes;
	uint64_t cap_eff;
	uint64_t sleeps;   /* how often it gave its core away by itself */
	bool shadow_stack; /* x86_Thread_features contains shstk */
};

/* Status of the process (tid 0) or of one of its threads. Where the main thread has ended and
 * others go on, tid 0 gives what a living thread says. */
HT_MUST_CHECK
struct ht_err *proc_status(const struct proc *proc, pid_t tid, struct proc_status *ret);

/* The number of a thread in its innermost pid namespace; 0: it has ended, or is not told. */
pid_t proc_ns_tid(const struct proc *proc, pid_t tid);

struct proc_map {
	raddr_t lo, hi;
	uint64_t offset;
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	bool read, write, exec, shared;
	const char *name; /* "" for anonymous; as the kernel prints it, with \012 for newline */
};

struct proc_maps {
	struct proc_map *map;
	size_t count;
	char *text; /* names point into it */
};

/* All mappings, ascending. Streaming read, no limit on their number but memory. */
HT_MUST_CHECK
struct ht_err *proc_maps_read(const struct proc *proc, struct proc_maps *ret);
void proc_maps_deinit(struct proc_maps *maps);
/* The mapping that holds `addr`, or NULL. Binary search. */
const struct proc_map *proc_maps_find(const struct proc_maps *maps, raddr_t addr);

/* What is mapped at single addresses, now. Where the kernel cannot be asked about one (before
 * 6.11): as it was at the beginning. */
struct proc_lookup {
	const struct proc *proc;
	int fd; /* -1: the kernel cannot */
	struct proc_maps maps;
};

HT_MUST_CHECK
struct ht_err *proc_lookup_begin(const struct proc *proc, struct proc_lookup *ret);
void proc_lookup_end(struct proc_lookup *lookup);
/* False when nothing is mapped at `addr`. ret->name is NULL. */
bool proc_lookup_find(const struct proc_lookup *lookup, raddr_t addr, struct proc_map *ret);
/* The mapping that holds `addr`, or the first behind it; false in `ret_found`: there is none. */
HT_MUST_CHECK
struct ht_err *proc_lookup_next(
	const struct proc_lookup *lookup, raddr_t addr, struct proc_map *ret, bool *ret_found);

/*
 * Opens the file of a mapping for reading: through the mapping itself, or, where that needs rights
 * we do not have, by its name if that still names the same file. HT_ERR_INCOMPLETE: neither works.
 */
HT_MUST_CHECK
struct ht_err *proc_open_mapped(const struct proc *proc, const struct proc_map *map, int *ret);

struct proc_tids {
	pid_t *tid;
	size_t count;
};

/* Every thread that lives from the call to its return is in the list, oldest first; others may be.
 * HT_ERR_REFUSED: they end too fast for that to be certain. */
HT_MUST_CHECK
struct ht_err *proc_tids_read(const struct proc *proc, struct proc_tids *ret);
void proc_tids_deinit(struct proc_tids *tids);
/* As proc_status for a thread of such a list; false in `ret_lives` when it has ended since. */
HT_MUST_CHECK
struct ht_err *proc_status_listed(
	const struct proc *proc, pid_t tid, struct proc_status *ret, bool *ret_lives);
/* Has any of its threads a seccomp filter now? What cannot be told is an error, as in
 * proc_tids_read, and never a "no": a call of ours would kill the target. */
HT_MUST_CHECK
struct ht_err *proc_any_seccomp(const struct proc *proc, bool *ret);

/* /proc/PID/task/TID/syscall: where a thread is, without stopping it. */
enum proc_where { PROC_RUNNING, PROC_IN_SYSCALL, PROC_BLOCKED_ELSEWHERE, PROC_THREAD_GONE };

struct proc_syscall {
	enum proc_where where;
	long nr;
	uint64_t arg[6];
	raddr_t sp, pc; /* set unless running */
};

HT_MUST_CHECK
struct ht_err *proc_syscall_read(const struct proc *proc, pid_t tid, struct proc_syscall *ret);

/* How long a thread has run, and how often it got a core. Not told by every kernel
 * (CONFIG_SCHED_INFO): HT_ERR_SYS with ENOENT, or zeros. */
struct proc_turns {
	uint64_t run_ns, count;
};

HT_MUST_CHECK
struct ht_err *proc_turns_read(const struct proc *proc, pid_t tid, struct proc_turns *ret);

/* The core on which the thread runs, or ran last; -1: not told. */
int proc_core(const struct proc *proc, pid_t tid);
/* How long ago it began, by up to a tick of 10 ms more; 0: not told. */
uint64_t proc_age_ns(const struct proc *proc, pid_t tid);
/* How late the timers of a thread, or process, may be; UINT64_MAX: not told. */
uint64_t proc_timer_slack_ns(pid_t tid);

/* CPU time of a thread, as of its last tick or switch, in ns; 0 when it is gone or the kernel does
 * not tell. */
uint64_t proc_ran_ns(const struct proc *proc, pid_t tid);
/* Has it run since then, or does it not want to? True where that is not told. */
bool proc_has_run(const struct proc *proc, pid_t tid, uint64_t ran_ns);

/* Reads the small text file /proc/PID/`name` into a malloc'd, NUL-terminated string; HT_ERR_FORMAT
 * beyond 1 MiB. HT_ERR_SYS with ENOENT: the kernel has no such file. */
HT_MUST_CHECK
struct ht_err *proc_text(const struct proc *proc, const char *name, char **ret);
/* The soft limit that /proc/PID/limits calls `name`, such as "Max file size"; UINT64_MAX when it is
 * unlimited or not told. */
uint64_t proc_limit(const struct proc *proc, const char *name);

/* What the kernel told the program at its start; 0: not told. */
struct proc_auxv {
	raddr_t phdr, entry; /* of the program, or of a dynamic linker started as one */
	raddr_t base;	     /* the dynamic linker's load address */
	raddr_t vdso;
	raddr_t random; /* 16 bytes */
};

HT_MUST_CHECK
struct ht_err *proc_auxv_read(const struct proc *proc, struct proc_auxv *ret);
/* Target of the link /proc/PID/`name` (exe, fd/3), malloc'd. */
HT_MUST_CHECK
struct ht_err *proc_link(const struct proc *proc, const char *name, char **ret);
