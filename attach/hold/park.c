/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold/park.h"

#include <errno.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/hold/linker.h"
#include "attach/hold/points.h"
#include "attach/hold/rights.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"
#include "attach/thread/stops.h"
#include "attach/thread/tracee.h"
#include "format/array.h"

#define NOTICES_MAX 1000u /* of the dynamic linker, one for each library that auditors load */

/* The points at which a program is stopped. */
enum { POINT_NOTICE, POINT_ENTRY };

struct start {
	pid_t pid;
	struct proc proc;
	raddr_t notice, entry; /* equal if a dynamic linker was started as a program */
	struct points points;
	raddr_t state; /* of the dynamic linker's list; 0: unknown */
	raddr_t call;
	bool loading; /* the list was seen to grow */
	bool inside;  /* of a system call */
	bool bare;    /* the breakpoints are removed for the duration of that call */
	bool ignores_traps, has_filter;
};

/* --- stops --- */

struct call {
	long nr;
	uint64_t arg[REGS_ARGS];
};

static struct user_regs_struct calling(const struct park *park, const struct call *call)
{
	struct user_regs_struct regs = park->regs;
	regs_go_to_call(&regs, park->call, call->nr);
	regs_set_args(&regs, call->arg);
	return regs;
}

/* Lets the stopped process, whose signals are all blocked, make a call. `ret`: its result, or
 * -errno. */
static struct ht_err *try_call(
	pid_t pid, const struct park *park, const struct call *call, long *ret)
{
	struct user_regs_struct regs = calling(park, call);
	struct ht_err *err = stops_set_regs(pid, &regs);
	HT_THEN(err, stops_resume_and_await(pid, PTRACE_SYSCALL));
	HT_THEN(err, stops_resume_and_await(pid, PTRACE_SYSCALL));
	HT_THEN(err, stops_get_regs(pid, &regs));
	if (!err && regs_pc(&regs) != park->call + REGS_SYSCALL_BYTES)
		err = ht_err_new(
			HT_ERR_INTERNAL, "process %d did not stop where heaptap expected it", pid);
	*ret = err ? 0 : regs_result(&regs);
	return err;
}

static struct ht_err *make_call(pid_t pid, const struct park *park, const struct call *call)
{
	long result;
	HT_TRY(try_call(pid, park, call, &result));
	if (result < 0)
		return ht_err_sys((int)-result, "process %d cannot be held at its start", pid);
	return NULL;
}

/* --- the program --- */

static struct ht_err *refuse_static(const struct start *start)
{
	return ht_err_new(HT_ERR_REFUSED,
		"process %d is statically linked: it has no dynamic linker, and heaptap cannot "
		"record it from its start; start it, and attach with --hook auto",
		start->pid);
}

/* Finds the first bytes in the dynamic linker that are a system call instruction. They may be part
 * of another instruction: the process jumps to them and nowhere else. */
static struct ht_err *find_call(struct start *start, const struct module *linker)
{
	static const uint8_t insn[REGS_SYSCALL_BYTES] = REGS_SYSCALL_BYTE;
	size_t length = linker->text_hi - linker->text_lo, got = 0;
	HT_FREED uint8_t *text = malloc(length);
	if (!text)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the code of the dynamic linker");
	HT_TRY(memory_read_some(&start->proc, linker->text_lo, text, length, &got));
	const uint8_t *found = memmem(text, got, insn, sizeof(insn));
	start->call = found ? linker->text_lo + (raddr_t)(found - text) : 0;
	return found ? NULL
		     : ht_err_new(HT_ERR_REFUSED,
			       "the dynamic linker of process %d makes no system call; "
			       "heaptap does not know this linker",
			       start->pid);
}

static struct ht_err *find_points(struct start *start, const struct proc_maps *maps)
{
	struct linker linker;
	HT_TRY(linker_find(&start->proc, maps, &linker));
	if (!linker.found)
		HT_TRY(refuse_static(start));
	HT_TRY(module_symbol(
		&start->proc, &linker.module, "_dl_debug_state", NULL, &start->notice));
	if (!start->notice)
		HT_TRY(refuse_static(start));
	/* A dynamic linker that was started as a program runs its notice function before the
	 * program's entry. */
	start->entry = linker.entry ? linker.entry : start->notice;
	start->state = linker.state;
	return find_call(start, &linker.module);
}

static struct ht_err *look_at_program(struct start *start)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_TRY(proc_open(start->pid, &start->proc));
	HT_TRY(rights_check(start->pid));
	HT_TRY(proc_open_mem(&start->proc));
	HT_TRY(proc_maps_read(&start->proc, &maps));
	HT_TRY(modules_check_machine(&start->proc, &maps));
	return find_points(start, &maps);
}

/* Is the dynamic linker's list consistent again, which means that everything is relocated? Auditors
 * (LD_AUDIT) have a list of their own, and cause notices before those of the program's libraries.
 * If the state is unknown (musl) there is one notice only. */
static struct ht_err *is_settled(struct start *start, bool *ret)
{
	int state = RT_CONSISTENT;
	struct ht_err *err =
		start->state ? memory_read(&start->proc, start->state, &state, sizeof(state))
			     : NULL;
	start->loading |= !err && state == RT_ADD;
	*ret = !err && state == RT_CONSISTENT && (start->loading || !start->state);
	return err;
}

/* Would the new process or thread run in this memory beside the held one? A vfork child does not:
 * it runs instead of the held one. */
static struct ht_err *shares_memory(
	const struct start *start, const struct user_regs_struct *regs, bool *ret)
{
	uint64_t flags = regs_call(regs) == SYS_clone ? regs_arg(regs, 0) : 0;
	struct ht_err *err =
		regs_call(regs) == SYS_clone3
			? memory_read(&start->proc, regs_arg(regs, 0), &flags, sizeof(flags))
			: NULL;
	*ret = !err && flags & CLONE_VM && !(flags & CLONE_VFORK);
	return err;
}

/* Removes the breakpoints for a fork by an auditor (LD_AUDIT), so that the child's memory has
 * none. */
static struct ht_err *spare_child(struct start *start, const struct user_regs_struct *regs)
{
	bool shares;
	long nr = regs_call(regs);
	if (nr != SYS_clone && nr != SYS_clone3 && nr != SYS_fork && nr != SYS_vfork)
		return NULL;
	struct ht_err *err = shares_memory(start, regs, &shares);
	if (!err && shares)
		err = ht_err_new(HT_ERR_REFUSED,
			"the command makes a thread before its own start (a library of LD_AUDIT "
			"does); start it without heaptap, then attach to it");
	if (err)
		return err;
	start->bare = true;
	return points_clear(&start->proc, &start->points);
}

static struct ht_err *at_call(struct start *start)
{
	struct user_regs_struct regs;
	start->inside = !start->inside;
	if (start->inside) {
		HT_TRY(stops_get_regs(start->pid, &regs));
		return spare_child(start, &regs);
	}
	if (!start->bare)
		return NULL;
	start->bare = false;
	return points_set_again(&start->proc, &start->points);
}

/* Runs the process through its system calls to the next trap. */
static struct ht_err *go_to_trap(struct start *start, struct user_regs_struct *ret)
{
	for (;;) {
		int status;
		bool lives;
		struct ht_err *err = stops_resume(start->pid, PTRACE_SYSCALL, 0);
		HT_THEN(err, stops_await(start->pid, PTRACE_SYSCALL, &status, &lives));
		if (!err && !lives)
			err = stops_ended(start->pid);
		if (!err && WSTOPSIG(status) == STOPS_SYSCALL && !(status >> 16))
			err = at_call(start);
		else if (!err)
			break;
		if (err)
			return err;
	}
	HT_TRY(stops_get_regs(start->pid, ret));
	/* The thread stops behind the byte of the breakpoint. */
	regs_set_pc(ret, regs_pc(ret) - 1);
	return stops_set_regs(start->pid, ret);
}

static struct ht_err *go_to_point(struct start *start, struct user_regs_struct *ret)
{
	const raddr_t addr[] = {[POINT_NOTICE] = start->notice, [POINT_ENTRY] = start->entry};
	bool settled = false;
	struct ht_err *err = points_set(&start->proc, addr, HT_ARRAY_SIZE(addr), &start->points);
	for (unsigned notice = 0; !err && !settled; notice++) {
		err = go_to_trap(start, ret);
		if (!err && (regs_pc(ret) != start->notice || notice == NOTICES_MAX))
			err = ht_err_new(HT_ERR_REFUSED,
				"the dynamic linker of process %d does not say when it is done; "
				"heaptap does not know this linker",
				start->pid);
		HT_THEN(err, is_settled(start, &settled));
		if (!err && !settled)
			err = points_step_over(&start->proc, &start->points, POINT_NOTICE);
	}
	return err ? err : points_clear(&start->proc, &start->points);
}

/* --- waiting at the start --- */

struct ht_err *park_seize(pid_t child)
{
	long options = PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD;
	if (ptrace(PTRACE_SEIZE, child, NULL, (void *)options) == 0)
		return NULL;
	int sys = errno;
	if (tracee_has_ended(child))
		return stops_ended(child);
	if (sys == EPERM)
		return ht_err_new(HT_ERR_PERMISSION,
			"the system does not let heaptap trace its own child, process %d (a "
			"seccomp filter, as containers have; kernel.yama.ptrace_scope above 1)",
			child);
	return ht_err_sys(sys, "cannot trace the command, process %d", child);
}

/* Drops pages that only a breakpoint has copied, so that the file's pages are mapped again. If that
 * fails the copies hold the same bytes. Not with a seccomp filter, which could kill the process for
 * the call. */
static struct ht_err *forget_copies(const struct start *start, const struct park *park)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; !err && !start->has_filter && i < start->points.count; i++) {
		raddr_t page = points_copied(&start->proc, &start->points, i);
		long result;
		if (page)
			err = try_call(start->pid, park,
				&(struct call){SYS_madvise, {page, HT_PAGE_BYTES, MADV_DONTNEED}},
				&result);
	}
	return err;
}

/* After a breakpoint's trap the kernel does not ignore SIGTRAP any more: ignore it again. */
static struct ht_err *ignore_traps(const struct start *start, const struct park *park)
{
	const struct kernel_action {
		uint64_t handler, flags, restorer, mask;
	} action = {.handler = (uint64_t)SIG_IGN};
	uint8_t before[sizeof(action)];
	raddr_t at = ht_align_down(regs_sp(&park->regs) - REGS_RED_ZONE - sizeof(action), 16);
	HT_TRY(memory_read(&start->proc, at, before, sizeof(before)));
	HT_TRY(memory_write(&start->proc, at, &action, sizeof(action)));
	HT_TRY(make_call(start->pid, park,
		&(struct call){SYS_rt_sigaction, {SIGTRAP, at, 0, sizeof(action.mask)}}));
	return memory_write(&start->proc, at, before, sizeof(before));
}

/* The wait has the signal mask of the program: a signal that ends the program also ends the
 * wait. */
static struct ht_err *wait_there(const struct start *start, pid_t parent, const struct park *park)
{
	pid_t pid = start->pid;
	struct user_regs_struct regs = calling(park, &(struct call){SYS_pause, {0}});
	HT_TRY(stops_set_mask(pid, UINT64_MAX));
	HT_TRY(forget_copies(start, park));
	if (start->ignores_traps)
		HT_TRY(ignore_traps(start, park));
	HT_TRY(make_call(pid, park, &(struct call){SYS_prctl, {PR_SET_PDEATHSIG, SIGKILL}}));
	/* PDEATHSIG works only from now on: check that the parent has not died before. */
	if (getppid() != parent)
		return ht_err_new(HT_ERR_INTERNAL, "heaptap has ended");
	HT_TRY(stops_set_regs(pid, &regs));
	HT_TRY(stops_set_mask(pid, park->signal_mask));
	return stops_detach(pid, 0);
}

static struct ht_err *park_program(struct start *start, pid_t parent, struct park *ret)
{
	pid_t pid = start->pid;
	struct proc_status status;
	struct ht_err *err = look_at_program(start);
	/* Read before the first breakpoint, whose trap unblocks SIGTRAP. */
	HT_THEN(err, proc_status(&start->proc, 0, &status));
	start->ignores_traps = !err && status.sig_ign >> (SIGTRAP - 1) & 1;
	start->has_filter = err || status.seccomp;
	HT_THEN(err, stops_get_mask(pid, &ret->signal_mask));
	HT_THEN(err, go_to_point(start, &ret->regs));
	ret->call = start->call;
	return err ? err : wait_there(start, parent, ret);
}

struct ht_err *park_at_start(pid_t child, pid_t parent, struct park *ret, bool *ret_parked)
{
	/* The process is inside its exec call. */
	struct start start = {.pid = child, .proc = {.pidfd = -1}, .inside = true};
	int status = 0;
	struct ht_err *err = stops_await(child, PTRACE_CONT, &status, ret_parked);
	if (err || !*ret_parked)
		return err;
	if (status >> 16 != PTRACE_EVENT_EXEC)
		return ht_err_new(HT_ERR_INTERNAL, "process %d stopped without reason", child);
	err = park_program(&start, parent, ret);
	proc_close(&start.proc);
	*ret_parked = !err || err->code != HT_ERR_TARGET_GONE;
	if (*ret_parked)
		return err;
	ht_err_free(err);
	return NULL;
}

struct ht_err *park_leave(
	pid_t child, const struct park *park, struct ht_err *(*last)(void *context), void *context)
{
	int status;
	bool lives = true;
	HT_TRY(park_seize(child));
	if (ptrace(PTRACE_INTERRUPT, child, NULL, NULL) < 0)
		return ht_err_sys(errno, "cannot stop process %d", child);
	HT_TRY(stops_await(child, PTRACE_INTERRUPT, &status, &lives));
	if (!lives)
		HT_TRY(stops_ended(child));
	HT_TRY(stops_set_mask(child, UINT64_MAX));
	HT_TRY(make_call(child, park, &(struct call){SYS_prctl, {PR_SET_PDEATHSIG, 0}}));
	HT_TRY(stops_set_regs(child, &park->regs));
	HT_TRY(stops_set_mask(child, park->signal_mask));
	HT_TRY(last(context));
	return stops_detach(child, 0);
}
