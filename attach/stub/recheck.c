/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/recheck.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/proc_living.h"
#include "attach/proc/proc_status.h"
#include "attach/process/descriptor.h"
#include "format/abi_control.h"

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif

static struct ht_err *is_well_placed(const struct proc *proc, const struct tracee *tracee,
	const struct remote_slack *slack, const struct remote_remains *remains, bool *ret)
{
	pid_t table = remains ? remains->table : 0;
	bool in_rseq, is_its = false, has_table = false;
	struct ht_err *err = tracee_in_rseq(proc, tracee, &in_rseq);
	HT_THEN(err, tracee_is_of(proc, tracee, &is_its));
	HT_THEN(err, descriptor_has_table(proc, tracee->tid, table, &has_table));
	/* A thread that single-steps itself would die at the stub's first trap, as its SIGTRAP is
	 * blocked then. */
	bool steps = regs_single_steps(&tracee->regs);
	*ret = !err && is_its && has_table && !in_rseq && !steps && regs_is_native(&tracee->regs) &&
	       regs_pc(&tracee->regs) - slack->addr >= slack->bytes;
	return err;
}

/* An instruction of the thread raised these signals, and the handler reads or corrects the thread's
 * registers: in the stub it would find the stub's. */
static bool has_raised(const struct proc_status *status)
{
	static const int raised[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGSYS};
	uint64_t coming = status->sig_pnd & ~status->sig_blk;
	bool found = false;

	for (size_t i = 0; i < HT_ARRAY_SIZE(raised); i++)
		found |= coming >> (raised[i] - 1) & 1;
	return found;
}

/* Reads the status once for all checks: of all reads while the thread is held this takes the
 * longest. */
static struct ht_err *read_status(
	const struct proc *proc, struct tracee *tracee, bool *ret_filtered, bool *ret_raised)
{
	struct proc_status status;
	struct ht_err *err = proc_status(proc, tracee->tid, &status);
	*ret_filtered = !err && status.seccomp != 0;
	*ret_raised = !err && has_raised(&status);
	tracee->call_mask = err ? 0 : status.sig_blk;
	return err;
}

/* The thread's calls pass any seccomp filter until its release, also a filter that another
 * thread installs meanwhile (TSYNC). False: heaptap may not do that (CAP_SYS_ADMIN), or the
 * kernel cannot. */
static bool suspend(const struct tracee *tracee)
{
	return ptrace(PTRACE_SETOPTIONS, tracee->tid, NULL, (void *)PTRACE_O_SUSPEND_SECCOMP) == 0;
}

struct dispatch {
	uint64_t mode, selector, offset, length;
};

/* Before Linux 6.4 the kernel does not tell whether calls are dispatched (Syscall User
 * Dispatch). A program that uses the dispatch catches SIGSYS, as do programs with seccomp
 * filters that send it. */
static struct ht_err *may_be_dispatched(
	const struct proc *proc, const struct tracee *tracee, bool *ret)
{
	struct proc_status status;
	struct ht_err *err = proc_status(proc, tracee->tid, &status);
	bool known = prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) == 0;

	*ret = !err && known && !status.seccomp && status.sig_cgt >> (SIGSYS - 1) & 1;
	return err;
}

/* Would the dispatch let the stub's calls pass? */
static bool passes(
	const struct proc *proc, const struct dispatch *dispatch, const struct remote_slack *slack)
{
	uint8_t selector = SYSCALL_DISPATCH_FILTER_BLOCK;
	size_t got = 0;

	if (slack->addr - dispatch->offset < dispatch->length &&
		slack->addr + slack->bytes - dispatch->offset <= dispatch->length)
		return true;
	if (dispatch->selector)
		ht_err_free(memory_read_some(proc, dispatch->selector, &selector, 1, &got));
	return got == 1 && selector == SYSCALL_DISPATCH_FILTER_ALLOW;
}

static struct ht_err *is_dispatched(const struct proc *proc, const struct tracee *tracee,
	const struct remote_slack *slack, bool leaving, bool *ret)
{
	struct dispatch dispatch = {0};

	if (ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tracee->tid, (void *)sizeof(dispatch),
		    &dispatch) < 0)
		return may_be_dispatched(proc, tracee, ret);
	*ret = dispatch.mode != PR_SYS_DISPATCH_OFF && !(leaving && passes(proc, &dispatch, slack));
	return NULL;
}

/* Is the thread's limit on file sizes too low? Its SIGXFSZ, blocked in the stub, would kill it at
 * the stub's end. prlimit takes a tenth of the time of a read from /proc, but may be forbidden. */
static bool is_limited(const struct proc *proc, pid_t tid)
{
	struct rlimit now;
	uint64_t bytes = prlimit(tid, RLIMIT_FSIZE, NULL, &now) == 0
				 ? now.rlim_cur
				 : proc_limit(proc, "Max file size");
	return bytes < abi_image_bytes(ABI_SLOT_MAX);
}

struct ht_err *recheck_judge(const struct proc *proc, struct tracee *tracee,
	const struct remote_slack *slack, const struct remote_remains *remains,
	enum recheck_verdict *ret)
{
	bool placed, raised = false, filtered = false, dispatched = false;
	struct ht_err *err = is_well_placed(proc, tracee, slack, remains, &placed);

	/* Suspend first: a filter that is installed before the status is read is suspended, too. */
	bool suspended = suspend(tracee);
	if (!err && placed)
		err = read_status(proc, tracee, &filtered, &raised);
	if (!err && placed)
		err = is_dispatched(proc, tracee, slack, remains, &dispatched);
	*ret = !placed || raised			   ? HELD_ELSEWHERE
	       : filtered && !suspended			   ? HELD_FILTERED
	       : dispatched				   ? HELD_DISPATCHED
	       : !remains && is_limited(proc, tracee->tid) ? HELD_LIMITED
							   : HELD_FIT;
	return err;
}

struct ht_err *recheck_refuse(const struct proc *proc, pid_t tid, enum recheck_verdict verdict)
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
	case HELD_DISPATCHED:
		return ht_err_new(HT_ERR_REFUSED,
			"thread %d of process %d handles its own system calls (Syscall User "
			"Dispatch, as Wine does) and would get heaptap's, too; try again when the "
			"program has turned that off",
			tid, proc->pid);
	case HELD_LIMITED:
		return ht_err_new(HT_ERR_REFUSED,
			"process %d has just limited the length of its files (RLIMIT_FSIZE) to "
			"less than heaptap needs; raise that first: prlimit --pid %d "
			"--fsize=unlimited:unlimited",
			proc->pid, proc->pid);
	}
	return NULL;
}

static struct ht_err *slack_is_lost(const struct proc *proc, const struct remote_slack *slack)
{
	return ht_err_new(HT_ERR_INCOMPLETE,
		"process %d has changed the unused bytes behind the code at %lx that heaptap needs",
		proc->pid, (unsigned long)slack->addr);
}

struct ht_err *recheck_slack_runs(const struct proc *proc, const struct remote_slack *slack)
{
	HT_CLEANUP(proc_lookup_end) struct proc_lookup lookup = {.fd = -1};
	struct proc_map map;
	HT_TRY(proc_lookup_begin(proc, &lookup));
	bool runs = proc_lookup_find(&lookup, slack->addr, &map) && map.read && map.exec &&
		    !map.shared && map.hi - slack->addr >= slack->bytes;
	return runs ? NULL : slack_is_lost(proc, slack);
}

struct ht_err *recheck_slack_holds(
	const struct proc *proc, const struct remote_slack *slack, bool leaving)
{
	uint8_t now[STUB_BYTES_MAX];
	bool stub;
	struct ht_err *err = remote_slack_holds_stub(proc, slack, &stub);

	if (err || (stub && leaving))
		return err;
	if (stub)
		return remote_slack_refuse(proc);
	HT_TRY(memory_read(proc, slack->addr, now, slack->bytes));
	return memcmp(now, slack->original, slack->bytes) == 0 ? NULL : slack_is_lost(proc, slack);
}
