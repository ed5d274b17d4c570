/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/held.h"

#include <string.h>
#include <sys/ptrace.h>

#include "attach/target/memory.h"

#define USER_CS 0x33 /* 64-bit user code segment */

static struct ht_err *is_well_placed(const struct proc *proc, const struct tracee *tracee,
	const struct remote_slack *slack, bool *ret)
{
	bool in_rseq, is_its = false;
	struct ht_err *err = tracee_in_rseq(proc, tracee, &in_rseq);
	if (!err)
		err = tracee_is_of(proc, tracee, &is_its);
	*ret = !err && is_its && !in_rseq && tracee->regs.cs == USER_CS &&
	       tracee->regs.rip - slack->addr >= slack->bytes;
	return err;
}

static struct ht_err *is_filtered(const struct proc *proc, const struct tracee *tracee, bool *ret)
{
	struct proc_status status;
	struct ht_err *err = proc_status(proc, tracee->tid, &status);
	*ret = !err && status.seccomp != 0;
	return err;
}

/* Its calls pass any filter until it is released, also one that another thread gives it meanwhile
 * (TSYNC). False: we may not (CAP_SYS_ADMIN), or the kernel cannot. */
static bool suspend(const struct tracee *tracee)
{
	return ptrace(PTRACE_SETOPTIONS, tracee->tid, NULL, (void *)PTRACE_O_SUSPEND_SECCOMP) == 0;
}

struct ht_err *held_judge(const struct proc *proc, const struct tracee *tracee,
	const struct remote_slack *slack, bool *ret_hold, enum held_verdict *ret)
{
	bool placed, filtered = false;
	struct ht_err *err = is_well_placed(proc, tracee, slack, &placed);

	/* In this order: one that it gets in between is suspended. */
	bool suspended = suspend(tracee);
	if (!err && placed)
		err = is_filtered(proc, tracee, &filtered);
	*ret_hold = filtered;
	*ret = !placed ? HELD_ELSEWHERE : filtered && !suspended ? HELD_FILTERED : HELD_FIT;
	return err;
}

struct ht_err *held_refuse(const struct proc *proc, pid_t tid, enum held_verdict verdict)
{
	switch (verdict) {
	case HELD_FIT:
	case HELD_ELSEWHERE:
		break;
	case HELD_FILTERED:
		return ht_err_new(HT_ERR_REFUSED,
			"thread %d of process %d has a seccomp filter, which only root may suspend "
			"for the moment of the attach; run heaptap as root",
			tid, proc->pid);
	}
	return NULL;
}

static struct ht_err *slack_is_lost(const struct proc *proc, const struct remote_slack *slack)
{
	return ht_err_new(HT_ERR_INCOMPLETE,
		"the stub's place behind the code at %lx in process %d is not what it was: the "
		"process has changed it",
		(unsigned long)slack->addr, proc->pid);
}

struct ht_err *held_slack_runs(const struct proc *proc, const struct remote_slack *slack)
{
	struct proc_lookup lookup;
	struct proc_map map;
	struct ht_err *err = proc_lookup_begin(proc, &lookup);

	if (err)
		return err;
	bool runs = proc_lookup_find(&lookup, slack->addr, &map) && map.exec && !map.shared &&
		    map.hi - slack->addr >= slack->bytes;
	proc_lookup_end(&lookup);
	return runs ? NULL : slack_is_lost(proc, slack);
}

struct ht_err *held_slack_holds(const struct proc *proc, const struct remote_slack *slack)
{
	uint8_t now[STUB_BYTES_MAX];
	bool stub;
	struct ht_err *err = remote_slack_holds_stub(proc, slack, &stub);

	if (err || stub)
		return err;
	err = memory_read(proc, slack->addr, now, slack->bytes);
	if (err)
		return err;
	return memcmp(now, slack->original, slack->bytes) == 0 ? NULL : slack_is_lost(proc, slack);
}
