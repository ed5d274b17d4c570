/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold/follow.h"

#include <link.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "attach/elf/modules.h"
#include "attach/hold/linker.h"
#include "attach/hold/rights.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/proc_open.h"
#include "attach/thread/stops.h"
#include "attach/thread/tracee.h"

#define STOP_NS	  (2 * CLOCK_NS_PER_S)
#define LEAVE_NS  (10 * CLOCK_NS_PER_S)
#define CALLS_MAX 200000u /* of a dynamic linker */

/* --- to the exec --- */

static bool is_in_agent(const struct follow_ask *ask, const struct user_regs_struct *regs)
{
	return regs_pc(regs) >= ask->code_lo && regs_pc(regs) < ask->code_hi;
}

static bool waits_in_guard(const struct follow_ask *ask, const struct tracee *tracee)
{
	return is_in_agent(ask, &tracee->regs) &&
	       __atomic_load_n(ask->asks, __ATOMIC_ACQUIRE) == (uint64_t)ask->tid;
}

/* A thread that has left its guard may be anywhere: it is released unchanged. A thread with a
 * seccomp filter is released, too: the filter would see the call in which the new program is to
 * wait. */
struct ht_err *follow_take(const struct follow_ask *ask, long options, bool *ret)
{
	struct tracee tracee;
	enum tracee_result result;
	struct proc_status status;
	bool is_its = false;
	/* The target wrote this number: check it. */
	struct ht_err *err = proc_has_thread(ask->proc, ask->tid, &is_its);
	*ret = false;
	if (err || !is_its)
		return err;
	err = tracee_stop(ask->tid, clock_mono_ns() + STOP_NS, false, &tracee, &result);
	if (err || result != TRACEE_STOPPED)
		return err;
	err = tracee_is_of(ask->proc, &tracee, &is_its);
	if (!err && is_its)
		err = proc_status(ask->proc, ask->tid, &status);
	*ret = !err && is_its && !status.seccomp && waits_in_guard(ask, &tracee) &&
	       ptrace(PTRACE_SETOPTIONS, ask->tid, NULL, (void *)options) == 0;
	if (!*ret)
		return ht_err_first(err, tracee_release(&tracee));
	__atomic_store_n(ask->held, (uint64_t)ask->tid, __ATOMIC_RELEASE);
	return NULL;
}

void follow_answer(const struct follow_ask *ask)
{
	uint64_t tid = (uint64_t)ask->tid;
	__atomic_store_n(ask->held, 0, __ATOMIC_RELEASE);
	/* Another thread may have asked by now: clear only this thread's question. */
	__atomic_compare_exchange_n(ask->asks, &tid, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Lets the thread make the calls of the guard itself, and rt_sigreturn: a signal handler that has
 * called nothing returns to where it was. */
static bool may_go_on(const struct follow_ask *ask, const struct user_regs_struct *regs)
{
	if (is_in_agent(ask, regs) || regs_call(regs) == SYS_rt_sigreturn)
		return true;
	bool at = regs_call(regs) == SYS_execveat;
	return (at || regs_call(regs) == SYS_execve) &&
	       rights_allow_exec(ask->proc, ask->tid, regs, at);
}

/* Runs the thread through execs that fail, as in a search through PATH, to the exec that succeeds.
 * After any other call the thread has given up its exec, and is released: false. */
static struct ht_err *go_to_exec(const struct follow_ask *ask, bool *ret)
{
	for (bool inside = false;;) {
		struct user_regs_struct regs;
		int status;
		bool lives;
		struct ht_err *err = stops_resume(ask->tid, PTRACE_SYSCALL, 0);
		HT_THEN(err, stops_await(ask->tid, PTRACE_SYSCALL, &status, &lives));
		*ret = !err && lives && status >> 16 == PTRACE_EVENT_EXEC;
		if (err || !lives || *ret)
			return err;
		if (status >> 16)
			return stops_detach(ask->tid, 0);
		/* A trap that the program itself caused: release the thread with that signal. */
		if (WSTOPSIG(status) != STOPS_SYSCALL)
			return stops_detach(ask->tid, WSTOPSIG(status));
		inside = !inside;
		if (!inside)
			continue;
		err = stops_get_regs(ask->tid, &regs);
		if (err || !may_go_on(ask, &regs))
			return ht_err_first(err, stops_detach(ask->tid, 0));
	}
}

/* --- from the exec to the program's start --- */

/* The last thing that glibc's dynamic linker does is to unmap its cache, if it had one, by its own
 * function munmap, when everything is relocated and its list is consistent. Any other call in that
 * state may be a constructor's. */
static struct ht_err *is_last_call(const struct proc *proc, const struct linker *linker,
	const struct user_regs_struct *regs, bool *ret)
{
	/* cmp $-4095, %rax; jae ...; ret: the rest of a function that needs no register. */
	static const uint8_t compare[] = {0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73};
	uint8_t code[sizeof(compare) + 2];
	*ret = false;
	raddr_t pc = regs_pc(regs);
	if (regs_call(regs) != SYS_munmap || pc < linker->module.text_lo ||
		pc >= linker->module.text_hi)
		return NULL;
	struct ht_err *err = memory_read(proc, pc, code, sizeof(code));
	*ret = !err && memcmp(code, compare, sizeof(compare)) == 0 &&
	       code[sizeof(code) - 1] == 0xc3;
	return err;
}

static struct ht_err *go_to_start(const struct proc *proc, const struct linker *linker,
	struct user_regs_struct *ret, bool *ret_there)
{
	bool loading = false, inside = true;
	for (unsigned calls = 0; calls < CALLS_MAX; calls++) {
		int state, status;
		bool lives;
		struct ht_err *err = stops_resume(proc->pid, PTRACE_SYSCALL, 0);
		HT_THEN(err, stops_await(proc->pid, PTRACE_SYSCALL, &status, &lives));
		/* The program ends at its start, because a library is missing, say. */
		if (!err && (!lives || status >> 16 == PTRACE_EVENT_EXIT))
			return lives ? NULL : stops_ended(proc->pid);
		inside = !inside;
		if (!err && !inside)
			continue;
		HT_THEN(err, memory_read(proc, linker->state, &state, sizeof(state)));
		if (err)
			return err;
		loading |= state == RT_ADD;
		if (!loading || state != RT_CONSISTENT)
			continue;
		HT_TRY(stops_get_regs(proc->pid, ret));
		return is_last_call(proc, linker, ret, ret_there);
	}
	return NULL;
}

static struct ht_err *find_linker(const struct proc *proc, struct linker *ret)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_TRY(proc_maps_read(proc, &maps));
	HT_TRY(modules_check_machine(proc, &maps));
	return linker_find(proc, &maps, ret);
}

/* Makes the process wait in poll instead of its call; follow_leave makes the call. */
static struct ht_err *wait_there(pid_t pid, const struct user_regs_struct *at)
{
	struct user_regs_struct regs = *at;
	regs_replace_call(&regs, SYS_poll);
	regs_set_args(&regs, (const uint64_t[REGS_ARGS]){0, 0, FOLLOW_WAIT_MS, regs_arg(at, 3)});
	return stops_set_regs(pid, &regs);
}

struct ht_err *follow_meet(pid_t pid, struct follow_wait *ret_wait, bool *ret_waits)
{
	HT_CLEANUP(proc_close) struct proc proc = {0};
	struct linker linker = {0};
	*ret_waits = false;
	struct ht_err *err = proc_open(pid, &proc);
	HT_THEN(err, proc_open_mem(&proc));
	HT_THEN(err, find_linker(&proc, &linker));
	if (!err && linker.found && linker.state)
		err = go_to_start(&proc, &linker, &ret_wait->regs, ret_waits);
	if (!err && *ret_waits)
		err = wait_there(pid, &ret_wait->regs);
	*ret_waits &= !err;
	return err;
}

struct ht_err *follow_exec(
	const struct follow_ask *ask, struct follow_wait *ret_wait, enum follow_result *ret)
{
	bool is_held, execed = false, waits = false;
	*ret = FOLLOW_NOTHING;
	struct ht_err *err = follow_take(ask, FOLLOW_OPTIONS, &is_held);
	if (!err && is_held)
		err = go_to_exec(ask, &execed);
	if (err || !execed)
		return err;
	/* The attach to this process meets the same error again, and reports it. */
	ht_err_free(follow_meet(ask->proc->pid, ret_wait, &waits));
	*ret = waits ? FOLLOW_WAITS : FOLLOW_BEGAN;
	return stops_detach(ask->proc->pid, 0);
}

/* --- the end of the wait --- */

static bool is_waiting(const struct user_regs_struct *regs, const struct follow_wait *wait)
{
	return regs_pc(regs) == regs_pc(&wait->regs) && regs_sp(regs) == regs_sp(&wait->regs) &&
	       regs_arg(regs, 0) == 0 && regs_arg(regs, 1) == 0 &&
	       regs_arg(regs, 2) == FOLLOW_WAIT_MS;
}

struct ht_err *follow_leave(pid_t pid, const struct follow_wait *wait, bool *ret_waited)
{
	struct tracee tracee;
	enum tracee_result result;
	uint64_t deadline = clock_mono_ns() + LEAVE_NS;
	*ret_waited = false;
	struct ht_err *err = tracee_stop(pid, deadline, false, &tracee, &result);
	if (err || result != TRACEE_STOPPED)
		return err;
	*ret_waited = is_waiting(&tracee.regs, wait);
	if (!*ret_waited)
		return tracee_release(&tracee);
	struct user_regs_struct regs = wait->regs;
	regs_step_back(&regs, regs_call(&regs));
	regs_forget_call(&regs);
	return tracee_release_at(&tracee, &regs);
}
