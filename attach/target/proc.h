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
	int dir_fd; /* /proc/PID, O_PATH | O_DIRECTORY */
	int mem_fd; /* /proc/PID/mem, O_RDWR: bound to the address space at open; -1 before
		       proc_open_mem */
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
	pid_t ns_tid; /* innermost number of NSpid */
	uint64_t sig_blk, sig_ign, sig_cgt, sig_pnd, shd_pnd;
	uint64_t rss_bytes;
	bool shadow_stack; /* x86_Thread_features contains shstk */
};

/* Status of the process (tid 0) or of one of its threads. Where the main thread has ended and
 * others go on, tid 0 gives what a living thread says. */
HT_MUST_CHECK
struct ht_err *proc_status(const struct proc *proc, pid_t tid, struct proc_status *ret);

/* Has any of its threads a seccomp filter now? */
bool proc_any_seccomp(const struct proc *proc);

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

struct proc_tids {
	pid_t *tid;
	size_t count;
};

HT_MUST_CHECK
struct ht_err *proc_tids_read(const struct proc *proc, struct proc_tids *ret);
void proc_tids_deinit(struct proc_tids *tids);

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
};

HT_MUST_CHECK
struct ht_err *proc_auxv_read(const struct proc *proc, struct proc_auxv *ret);
/* Target of the link /proc/PID/`name` (exe, fd/3), malloc'd. */
HT_MUST_CHECK
struct ht_err *proc_link(const struct proc *proc, const char *name, char **ret);
