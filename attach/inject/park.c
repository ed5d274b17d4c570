/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/park.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/inject/linker.h"
#include "attach/inject/rights.h"
#include "attach/inject/stops.h"
#include "attach/target/tracee.h"

#define NOTICES_MAX 1000u /* of the dynamic linker, each for what auditors loaded */

/* Where a program is met: each in a debug register, or with its byte replaced. */
enum { POINT_NOTICE, POINT_ENTRY, POINTS };

struct start {
	pid_t pid;
	struct proc proc;
	enum park_way way;
	raddr_t point[POINTS];
	uint8_t byte[POINTS];
	raddr_t state; /* of the dynamic linker's list; 0: not told */
	raddr_t call;
	bool ignores_traps;
};

/* --- stops
 * ---------------------------------------------------------------------------------------------- */

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

/* Has the stopped process, whose signals are all blocked, make a call. */
static struct ht_err *make_call(pid_t pid, const struct park *park, const struct call *call)
{
	struct user_regs_struct regs = calling(park, call);
	struct ht_err *err = stops_set_regs(pid, &regs);
	if (!err)
		err = stops_go(pid, PTRACE_SYSCALL);
	if (!err)
		err = stops_go(pid, PTRACE_SYSCALL);
	if (!err)
		err = stops_get_regs(pid, &regs);
	if (!err && regs_pc(&regs) != park->call + REGS_SYSCALL_BYTES)
		err = ht_err_new(
			HT_ERR_INTERNAL, "process %d did not stop where heaptap expected it", pid);
	if (!err && regs_result(&regs) < 0)
		err = ht_err_sys(
			(int)-regs_result(&regs), "process %d cannot be held at its start", pid);
	return err;
}

/* --- points
 * --------------------------------------------------------------------------------------------- */

static bool set_debug(pid_t pid, unsigned index, uint64_t value)
{
	size_t at = offsetof(struct user, u_debugreg) + index * sizeof(uint64_t);
	return ptrace(PTRACE_POKEUSER, pid, (void *)at, (void *)value) == 0;
}

/* Each register stops before the instruction at its address: its bit of four in the seventh. */
static bool set_registers(const struct start *start)
{
	uint64_t control = 0;
	for (unsigned i = 0; i < POINTS; i++) {
		if (!set_debug(start->pid, i, start->point[i]))
			return false;
		control |= 1ull << (2 * i);
	}
	return set_debug(start->pid, 7, control);
}

static void clear_registers(const struct start *start)
{
	set_debug(start->pid, 7, 0);
	for (unsigned i = 0; i < POINTS; i++)
		set_debug(start->pid, i, 0);
}

static struct ht_err *put_byte(const struct start *start, unsigned i, bool breakpoint)
{
	uint8_t byte = breakpoint ? REGS_BREAKPOINT : start->byte[i];
	return memory_write(&start->proc, start->point[i], &byte, sizeof(byte));
}

static struct ht_err *set_points(struct start *start)
{
	struct ht_err *err = NULL;
	if (start->way == PARK_DEBUG_REGISTER && set_registers(start))
		return NULL;
	/* A part of them may be set. */
	clear_registers(start);
	start->way = PARK_BREAKPOINT;
	for (unsigned i = 0; !err && i < POINTS; i++)
		err = memory_read(&start->proc, start->point[i], &start->byte[i], 1);
	for (unsigned i = 0; !err && i < POINTS; i++)
		err = put_byte(start, i, true);
	return err;
}

static struct ht_err *clear_points(const struct start *start)
{
	struct ht_err *err = NULL;
	if (start->way == PARK_DEBUG_REGISTER)
		clear_registers(start);
	for (unsigned i = 0; start->way == PARK_BREAKPOINT && i < POINTS; i++)
		err = ht_err_first(err, put_byte(start, i, false));
	return err;
}

/* A breakpoint stops behind its byte. */
static struct ht_err *at_point(const struct start *start, struct user_regs_struct *regs)
{
	struct ht_err *err = stops_get_regs(start->pid, regs);
	if (err || start->way == PARK_DEBUG_REGISTER)
		return err;
	regs_set_pc(regs, regs_pc(regs) - 1);
	return stops_set_regs(start->pid, regs);
}

/* A debug register lets the instruction pass by itself when the process goes on. */
static struct ht_err *step_over(const struct start *start)
{
	if (start->way == PARK_DEBUG_REGISTER)
		return NULL;
	struct ht_err *err = put_byte(start, POINT_NOTICE, false);
	if (!err)
		err = stops_go(start->pid, PTRACE_SINGLESTEP);
	return err ? err : put_byte(start, POINT_NOTICE, true);
}

/* --- the program
 * ----------------------------------------------------------------------------------------- */

static struct ht_err *refuse_static(const struct start *start)
{
	return ht_err_new(HT_ERR_REFUSED,
		"process %d is statically linked: it has no dynamic linker, and heaptap cannot "
		"record it from its start; start it, and attach with --hook auto",
		start->pid);
}

/* The first bytes that are a system call; nothing but a jump goes there, whatever they belong to.
 */
static struct ht_err *find_call(struct start *start, const struct module *linker)
{
	static const uint8_t insn[REGS_SYSCALL_BYTES] = REGS_SYSCALL_BYTE;
	size_t length = linker->text_hi - linker->text_lo, got = 0;
	uint8_t *text = malloc(length);
	if (!text)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the code of the dynamic linker");
	struct ht_err *err = memory_read_some(&start->proc, linker->text_lo, text, length, &got);
	const uint8_t *found = err ? NULL : memmem(text, got, insn, sizeof(insn));
	start->call = found ? linker->text_lo + (raddr_t)(found - text) : 0;
	free(text);
	return err || found ? err
			    : ht_err_new(HT_ERR_REFUSED,
				      "the dynamic linker of process %d makes no system call: it "
				      "is none that heaptap knows",
				      start->pid);
}

static struct ht_err *find_points(struct start *start, const struct proc_maps *maps)
{
	struct linker linker;
	struct ht_err *err = linker_find(&start->proc, maps, &linker);
	if (!err && !linker.found)
		err = refuse_static(start);
	if (!err)
		err = module_symbol(&start->proc, &linker.module, "_dl_debug_state", NULL,
			&start->point[POINT_NOTICE]);
	if (!err && !start->point[POINT_NOTICE])
		err = refuse_static(start);
	if (err)
		return err;
	/* Of a dynamic linker that was started as a program it is the first thing to run. */
	start->point[POINT_ENTRY] = linker.entry ? linker.entry : start->point[POINT_NOTICE];
	start->state = linker.state;
	return find_call(start, &linker.module);
}

static struct ht_err *look_at_program(struct start *start)
{
	struct proc_maps maps;
	struct ht_err *err = proc_open(start->pid, &start->proc);
	if (!err)
		err = rights_check(start->pid);
	if (!err)
		err = proc_open_mem(&start->proc);
	if (!err)
		err = proc_maps_read(&start->proc, &maps);
	if (err)
		return err;
	err = modules_check_machine(&start->proc, &maps);
	if (!err)
		err = find_points(start, &maps);
	proc_maps_deinit(&maps);
	return err;
}

/* Is the list whole, which it is when everything is relocated? Where it is not told (musl) there is
 * one notice only. */
static struct ht_err *is_settled(const struct start *start, bool *ret)
{
	int state = RT_CONSISTENT;
	struct ht_err *err =
		start->state ? memory_read(&start->proc, start->state, &state, sizeof(state))
			     : NULL;
	*ret = !err && state == RT_CONSISTENT;
	return err;
}

static struct ht_err *go_to_point(struct start *start, struct user_regs_struct *ret)
{
	bool settled = false;
	struct ht_err *err = set_points(start);
	for (unsigned notice = 0; !err && !settled; notice++) {
		err = stops_go(start->pid, PTRACE_CONT);
		if (!err)
			err = at_point(start, ret);
		if (!err && (regs_pc(ret) != start->point[POINT_NOTICE] || notice == NOTICES_MAX))
			err = ht_err_new(HT_ERR_REFUSED,
				"the dynamic linker of process %d does not say when it is done: it "
				"is none that heaptap knows",
				start->pid);
		if (!err)
			err = is_settled(start, &settled);
		if (!err && !settled)
			err = step_over(start);
	}
	return err ? err : clear_points(start);
}

/* --- waiting there
 * --------------------------------------------------------------------------------------- */

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

/* The trap of a point makes the kernel forget that its signal was ignored. */
static struct ht_err *ignore_traps(const struct start *start, const struct park *park)
{
	const struct kernel_action {
		uint64_t handler, flags, restorer, mask;
	} action = {.handler = (uint64_t)SIG_IGN};
	uint8_t before[sizeof(action)];
	raddr_t at = ht_align_down(regs_sp(&park->regs) - REGS_RED_ZONE - sizeof(action), 16);
	struct ht_err *err = memory_read(&start->proc, at, before, sizeof(before));
	if (!err)
		err = memory_write(&start->proc, at, &action, sizeof(action));
	if (!err)
		err = make_call(start->pid, park,
			&(struct call){SYS_rt_sigaction, {SIGTRAP, at, 0, sizeof(action.mask)}});
	return err ? err : memory_write(&start->proc, at, before, sizeof(before));
}

/* With signals as they were: those that end a program end one that waits, too. */
static struct ht_err *wait_there(const struct start *start, pid_t parent, const struct park *park)
{
	pid_t pid = start->pid;
	struct user_regs_struct regs = calling(park, &(struct call){SYS_pause, {0}});
	struct ht_err *err = stops_set_mask(pid, UINT64_MAX);
	if (!err && start->ignores_traps)
		err = ignore_traps(start, park);
	if (!err)
		err = make_call(pid, park, &(struct call){SYS_prctl, {PR_SET_PDEATHSIG, SIGKILL}});
	/* That holds from now on; who died before died unseen by it. */
	if (!err && getppid() != parent)
		err = ht_err_new(HT_ERR_INTERNAL, "heaptap has ended");
	if (!err)
		err = stops_set_regs(pid, &regs);
	if (!err)
		err = stops_set_mask(pid, park->signal_mask);
	return err ? err : stops_detach(pid, 0);
}

static struct ht_err *park_program(struct start *start, pid_t parent, struct park *ret)
{
	pid_t pid = start->pid;
	struct proc_status status;
	struct ht_err *err = look_at_program(start);
	/* Before the first point: its trap unblocks its signal. */
	if (!err)
		err = proc_status(&start->proc, 0, &status);
	start->ignores_traps = !err && status.sig_ign >> (SIGTRAP - 1) & 1;
	if (!err)
		err = stops_get_mask(pid, &ret->signal_mask);
	if (!err)
		err = go_to_point(start, &ret->regs);
	ret->call = start->call;
	return err ? err : wait_there(start, parent, ret);
}

struct ht_err *park_at_start(
	pid_t child, pid_t parent, enum park_way way, struct park *ret, bool *ret_parked)
{
	struct start start = {.pid = child, .way = way, .proc = {.pidfd = -1}};
	int status = 0;
	struct ht_err *err = stops_await(child, PTRACE_CONT, &status, ret_parked);
	if (err || !*ret_parked)
		return err;
	if (status >> 16 != PTRACE_EVENT_EXEC)
		return ht_err_new(HT_ERR_INTERNAL, "process %d stopped without reason", child);
	err = park_program(&start, parent, ret);
	proc_close(&start.proc);
	if (err && err->code == HT_ERR_TARGET_GONE) {
		ht_err_free(err);
		err = NULL;
		*ret_parked = false;
	}
	return err;
}

struct ht_err *park_leave(
	pid_t child, const struct park *park, struct ht_err *(*last)(void *context), void *context)
{
	int status;
	bool lives = true;
	struct ht_err *err = park_seize(child);
	if (!err && ptrace(PTRACE_INTERRUPT, child, NULL, NULL) < 0)
		err = ht_err_sys(errno, "cannot stop process %d", child);
	if (!err)
		err = stops_await(child, PTRACE_INTERRUPT, &status, &lives);
	if (!err && !lives)
		err = stops_ended(child);
	if (!err)
		err = stops_set_mask(child, UINT64_MAX);
	if (!err)
		err = make_call(child, park, &(struct call){SYS_prctl, {PR_SET_PDEATHSIG, 0}});
	if (!err)
		err = stops_set_regs(child, &park->regs);
	if (!err)
		err = stops_set_mask(child, park->signal_mask);
	if (!err)
		err = last(context);
	return err ? err : stops_detach(child, 0);
}
