/* SPDX-License-Identifier: Apache-2.0
 *
 * Why the kernel forbids access to a process, and what to do about it. The kernel answers EACCES
 * to everything; the rule is worked out from the facts that it judges by.
 */
#pragma once

#include "attach/proc/proc.h"

struct permission_facts {
	pid_t pid;
	char comm[64];
	uid_t our_euid;
	uid_t target_ruid, target_euid, target_suid;
	bool our_cap_sys_ptrace;
	bool same_user_ns;
	bool dumpable;
	bool more_caps; /* the target holds capabilities that we do not */
	int yama_scope; /* kernel.yama.ptrace_scope; -1: no Yama */
};

/* HT_ERR_PERMISSION naming the rule that forbids and the remedy. */
HT_MUST_CHECK
struct ht_err *permission_judge(const struct permission_facts *facts);
/* Collects the facts about `proc` and judges. HT_ERR_TARGET_GONE if it ended. */
HT_MUST_CHECK
struct ht_err *permission_explain(const struct proc *proc);

/* Adds to an error of ours with `proc`, which it takes and returns, why we may not look into it any
 * more, and the remedy: where that is so, and was the reason. */
HT_MUST_CHECK
struct ht_err *permission_lost(const struct proc *proc, struct ht_err *err);

/* HT_ERR_PERMISSION where this kernel lets nobody write through /proc/PID/mem what the process
 * itself may only read, as its code (Linux 6.12: CONFIG_PROC_MEM_NO_FORCE and _FORCE_PTRACE,
 * proc_mem.force_override). Tried on a page of our own; `pid` is for the message. */
HT_MUST_CHECK
struct ht_err *permission_check_writing(pid_t pid);
