/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out why the kernel forbids access to a process, and the remedy. The kernel returns the same
 * error for every rule; heaptap derives the rule from the facts by which the kernel judges.
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

/* Always an HT_ERR_PERMISSION, which names the rule that forbids access and the remedy. */
HT_MUST_CHECK
struct ht_err *permission_judge(const struct permission_facts *facts);
/* Collects the facts about `proc` and judges them. HT_ERR_TARGET_GONE if the process has ended. */
HT_MUST_CHECK
struct ht_err *permission_explain(const struct proc *proc);

/* Takes an error about `proc` and returns it. If heaptap has lost the right to look into the
 * process, and `err` comes from that, the result also names the rule and the remedy. */
HT_MUST_CHECK
struct ht_err *permission_lost(const struct proc *proc, struct ht_err *err);

/* HT_ERR_PERMISSION if this kernel refuses writes through /proc/PID/mem to memory that the process
 * itself may only read, such as code (Linux 6.12: CONFIG_PROC_MEM_NO_FORCE and _FORCE_PTRACE,
 * proc_mem.force_override). Tries it on a page of our own; `pid` is for the message. */
HT_MUST_CHECK
struct ht_err *permission_check_writing(pid_t pid);
