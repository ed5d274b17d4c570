/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a status file below /proc.
 */
#pragma once

#include "attach/proc/proc.h"

#define PROC_STATUS_BYTES (1u << 16) /* of such a file, at most */

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

/* From the text of a status file, which it changes; `ret_tgid`: the process it belongs to. */
HT_MUST_CHECK
struct ht_err *proc_status_parse(
	const struct proc *proc, char *text, struct proc_status *ret, pid_t *ret_tgid);
/* The status of the task that /proc/PID is, alive or not, and the process it belongs to. */
HT_MUST_CHECK
struct ht_err *proc_status_leader(
	const struct proc *proc, struct proc_status *ret, pid_t *ret_tgid);
