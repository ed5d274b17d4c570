/* SPDX-License-Identifier: Apache-2.0
 *
 * Parser of a status file of /proc.
 */
#pragma once

#include "attach/proc/proc.h"

#define PROC_STATUS_BYTES (1u << 16) /* maximum size of the file */

struct proc_status {
	char comm[64];
	char state; /* R S D T t Z X I */
	pid_t ppid;
	pid_t tracer; /* 0: none */
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;
	unsigned threads;
	int seccomp;   /* 0 none, 1 strict, 2 filter */
	pid_t ns_tid;  /* innermost number of NSpid */
	bool ns_alone; /* NSpid has one number: the process lives in our PID namespace, with all its
			  threads */
	uint64_t sig_blk, sig_ign, sig_cgt, sig_pnd;
	uint64_t rss_bytes, vm_bytes, data_bytes, locked_bytes;
	uint64_t cap_eff;
	uint64_t sleeps;   /* voluntary context switches */
	bool shadow_stack; /* x86_Thread_features contains shstk */
};

/* Parses the text of a status file, which it overwrites. `*ret_tgid` is the process of the task. */
HT_MUST_CHECK
struct ht_err *proc_status_parse(
	const struct proc *proc, char *text, struct proc_status *ret, pid_t *ret_tgid);
/* Status of the task whose number is proc->pid, also after its end. `*ret_tgid` is its process. */
HT_MUST_CHECK
struct ht_err *proc_status_leader(
	const struct proc *proc, struct proc_status *ret, pid_t *ret_tgid);
