/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/sweep.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/procsaid.h"
#include "tests/support/random.h"
#include "tests/support/sample.h"

#define PROCESSES_MAX 64
#define OPTIONS                                                                                    \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |  \
		PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

struct sweep_process {
	pid_t pid;
	enum sweep_role role;
	long number; /* the system call number of the process's last call */
	bool failing;
};

static const char *const role_names[SWEEP_ROLES] = {
	[SWEEP_ANY] = "any process",
	[SWEEP_MAIN] = "main",
	[SWEEP_WORKER] = "a worker",
	[SWEEP_GUARDIAN] = "the guardian",
};

static const char *const action_names[] = {
	[SWEEP_COUNT] = "nothing",
	[SWEEP_KILL] = "kill",
	[SWEEP_KILL_MAIN] = "kill main",
	[SWEEP_KILL_ALL] = "kill all",
	[SWEEP_FAIL] = "failure",
	[SWEEP_FAIL_ON] = "failure from then on",
	[SWEEP_SIGNAL] = "signal",
	[SWEEP_CALL] = "callback",
};

#define CALL(name) [SYS_##name] = #name

static const char *const call_names[] = {CALL(read), CALL(write), CALL(close), CALL(fstat),
	CALL(poll), CALL(lseek), CALL(mmap), CALL(mprotect), CALL(munmap), CALL(brk),
	CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(ioctl), CALL(pread64), CALL(pwrite64),
	CALL(access), CALL(pipe), CALL(sched_yield), CALL(madvise), CALL(dup), CALL(dup2),
	CALL(nanosleep), CALL(getpid), CALL(socketpair), CALL(sendto), CALL(recvfrom),
	CALL(sendmsg), CALL(recvmsg), CALL(setsockopt), CALL(getsockopt), CALL(clone), CALL(fork),
	CALL(vfork), CALL(execve), CALL(exit), CALL(wait4), CALL(kill), CALL(uname), CALL(fcntl),
	CALL(flock), CALL(fsync), CALL(fdatasync), CALL(ftruncate), CALL(getcwd), CALL(rename),
	CALL(unlink), CALL(readlink), CALL(umask), CALL(getuid), CALL(geteuid), CALL(getgid),
	CALL(getppid), CALL(setpgid), CALL(ptrace), CALL(prctl), CALL(arch_prctl),
	CALL(setpriority), CALL(gettid), CALL(futex), CALL(sched_setaffinity), CALL(getdents64),
	CALL(set_tid_address), CALL(clock_gettime), CALL(clock_nanosleep), CALL(exit_group),
	CALL(openat), CALL(newfstatat), CALL(unlinkat), CALL(readlinkat), CALL(set_robust_list),
	CALL(fallocate), CALL(signalfd4), CALL(pipe2), CALL(prlimit64), CALL(process_vm_readv),
	CALL(process_vm_writev), CALL(getrandom), CALL(memfd_create), CALL(statx), CALL(rseq),
	CALL(clone3), CALL(pidfd_send_signal), CALL(pidfd_open), CALL(close_range),
	CALL(pidfd_getfd)};

static const char *call_name(long number)
{
	static _Thread_local char text[32];

	if (number >= 0 && (size_t)number < HT_ARRAY_SIZE(call_names) && call_names[number])
		return call_names[number];
	snprintf(text, sizeof(text), "call %ld", number);
	return text;
}

/* --- the processes
 * -------------------------------------------------------------------------------------------- */

static struct sweep_process *process_find(struct sweep *sweep, pid_t pid)
{
	for (size_t i = 0; i < sweep->process_count; i++)
		if (sweep->process[i].pid == pid)
			return &sweep->process[i];
	ck_assert_uint_lt(sweep->process_count, PROCESSES_MAX);
	struct sweep_process *process = &sweep->process[sweep->process_count++];
	*process = (struct sweep_process){.pid = pid,
		.role = pid == sweep->run.pid ? SWEEP_MAIN : SWEEP_WORKER,
		.number = -1};
	return process;
}

static void process_forget(struct sweep *sweep, pid_t pid)
{
	struct sweep_process *process = process_find(sweep, pid);
	*process = sweep->process[--sweep->process_count];
}

static void signal_all(const struct sweep *sweep, int signal)
{
	for (size_t i = 0; i < sweep->process_count; i++)
		kill(sweep->process[i].pid, signal);
}

/* --- the call
 * -------------------------------------------------------------------------------------------------
 */

static void poke(pid_t pid, size_t offset, long value)
{
	ptrace(PTRACE_POKEUSER, pid, offset, value);
}

/* brk has no error return: on failure it returns the current break. */
static bool can_fail(long number)
{
	return number != SYS_exit && number != SYS_exit_group && number != SYS_brk;
}

static void act(struct sweep *sweep, struct sweep_process *process)
{
	switch (sweep->plan.action) {
	case SWEEP_COUNT:
		break;
	case SWEEP_KILL:
		kill(process->pid, SIGKILL);
		break;
	case SWEEP_KILL_MAIN:
		kill(sweep->run.pid, SIGKILL);
		break;
	case SWEEP_KILL_ALL:
		signal_all(sweep, SIGKILL);
		break;
	case SWEEP_FAIL:
		if (sweep->plan.call)
			sweep->plan.call(sweep->plan.context);
		/* fall through */
	case SWEEP_FAIL_ON:
		process->failing = can_fail(process->number);
		/* With call number -1 the kernel makes no call. */
		if (process->failing)
			poke(process->pid, offsetof(struct user_regs_struct, orig_rax), -1);
		break;
	case SWEEP_SIGNAL:
		signal_all(sweep, sweep->plan.value);
		break;
	case SWEEP_CALL:
		sweep->plan.call(sweep->plan.context);
		break;
	}
}

static bool is_due(struct sweep *sweep, const struct sweep_process *process, uint64_t sp)
{
	const struct sweep_plan *plan = &sweep->plan;

	if (plan->action == SWEEP_COUNT || sweep->hit ||
		(plan->role != SWEEP_ANY && plan->role != process->role))
		return false;
	if (plan->places)
		return places_is_due(
			plan->places, process->pid, process->role, process->number, sp);
	return sweep->calls[plan->role] == plan->at;
}

/* After the hit, does the action also apply to each later call? */
static bool goes_on(const struct sweep *sweep)
{
	enum sweep_action action = sweep->plan.action;

	return sweep->hit &&
	       (action == SWEEP_SIGNAL || (action == SWEEP_FAIL_ON && !sweep->main_has_ended));
}

static bool begins(const struct sweep_plan *plan, const struct sweep_process *process)
{
	if (plan->from_guardian)
		return process->role == SWEEP_GUARDIAN;
	return !plan->orphans && (plan->from == 0 || process->number == plan->from);
}

static void at_entry(struct sweep *sweep, struct sweep_process *process,
	const struct __ptrace_syscall_info *info)
{
	const struct sweep_plan *plan = &sweep->plan;
	long number = (long)info->entry.nr, first_arg = (long)info->entry.args[0];

	/* Not counted: the kernel restarts a call that a signal interrupted. If restarts counted,
	 * each signal would cause one more counted call and so one more signal, for ever. */
	if (number == SYS_restart_syscall)
		return;
	process->number = number;
	if (number == SYS_prctl && first_arg == PR_SET_NAME)
		process->role = SWEEP_GUARDIAN;
	sweep->begun |= begins(plan, process);
	if (!sweep->begun ||
		(plan->request && (number != SYS_ptrace || first_arg != plan->request)) ||
		(plan->number && number != plan->number))
		return;
	sweep->calls[SWEEP_ANY]++;
	sweep->calls[process->role]++;
	bool here = is_due(sweep, process, info->stack_pointer);
	if (here) {
		sweep->hit_at = sweep->calls[plan->role];
		sweep->hit_role = process->role;
		sweep->hit_number = number;
		sweep->hit = true;
	}
	if (here || goes_on(sweep))
		act(sweep, process);
	if (here && plan->dally_ms)
		usleep(plan->dally_ms * 1000);
}

static void at_exit(struct sweep *sweep, struct sweep_process *process)
{
	if (!process->failing)
		return;
	process->failing = false;
	poke(process->pid, offsetof(struct user_regs_struct, rax), -sweep->plan.value);
}

static void at_call(struct sweep *sweep, struct sweep_process *process)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, process->pid, sizeof(info), &info) <= 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
		at_entry(sweep, process, &info);
	else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
		at_exit(sweep, process);
}

/* --- the tracer
 * -----------------------------------------------------------------------------------------------
 */

/* After the hit the process need not stop at calls, unless the action applies to this call's end or
 * to later calls. */
static void resume(const struct sweep *sweep, const struct sweep_process *process, int signal)
{
	bool calls = !sweep->hit || process->failing || goes_on(sweep);
	ptrace(calls ? PTRACE_SYSCALL : PTRACE_CONT, process->pid, NULL, (long)signal);
}

/* Detaches from the command before main goes on, because heaptap's workers must be able to trace
 * it. */
static void leave_command(struct sweep *sweep)
{
	unsigned long pid = 0;
	int status;

	ptrace(PTRACE_GETEVENTMSG, sweep->run.pid, NULL, &pid);
	sweep->command = (pid_t)pid;
	if (waitpid(sweep->command, &status, __WALL | __WNOTHREAD) == sweep->command)
		ptrace(PTRACE_DETACH, sweep->command, NULL, NULL);
}

static void at_stop(struct sweep *sweep, pid_t pid, int status)
{
	struct sweep_process *process = process_find(sweep, pid);
	int event = status >> 16, signal = WSTOPSIG(status);

	if (sweep->hit && sweep->plan.action == SWEEP_KILL_ALL)
		kill(pid, SIGKILL); /* the process was being forked at the hit, so the first
				       SIGKILLs missed it */
	if (event == PTRACE_EVENT_FORK && sweep->plan.command && !sweep->command)
		leave_command(sweep);
	if (event == PTRACE_EVENT_EXEC && pid != sweep->run.pid) {
		/* The process runs another program now and is no part of heaptap. */
		process_forget(sweep, pid);
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
	} else if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
		ptrace(PTRACE_LISTEN, pid, NULL, NULL);
	} else if (event) {
		resume(sweep, process, 0);
	} else if (signal == (SIGTRAP | 0x80)) {
		at_call(sweep, process);
		resume(sweep, process, 0);
	} else {
		resume(sweep, process, signal);
	}
}

struct gate {
	int fd[2];
	const struct sweep_plan *plan;
};

static void wait_for_tracer(void *context)
{
	const struct gate *gate = context;
	char byte;

	close(gate->fd[1]);
	if (read(gate->fd[0], &byte, 1) != 1)
		_exit(126);
	if (gate->plan->prepare)
		gate->plan->prepare(gate->plan->context);
}

/* Starts main, held by a pipe until the tracer has seized it. Its calls are counted from the exec
 * on. */
static void start(struct sweep *sweep)
{
	struct gate gate = {.plan = &sweep->plan};

	ck_assert_int_eq(pipe2(gate.fd, O_CLOEXEC), 0);
	run_start_prepared(&sweep->run, sweep->argv, wait_for_tracer, &gate);
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, sweep->run.pid, NULL, OPTIONS), 0);
	process_find(sweep, sweep->run.pid);
	ck_assert_int_eq(write(gate.fd[1], "", 1), 1);
	close(gate.fd[0]);
	close(gate.fd[1]);
}

/* Polls the processes in turn. waitpid(-1) returns the first one that is stopped; on a busy machine
 * that is always a process that polls every millisecond, and the others would starve. */
static pid_t wait_in_turn(struct sweep *sweep, int *ret_status)
{
	/* Only main until leave_command has run: leave_command waits for the command's first stop
	 * itself. */
	if (sweep->plan.command && !sweep->command && sweep->process_count)
		return waitpid(sweep->run.pid, ret_status, __WALL | __WNOTHREAD);
	for (size_t i = 0; i < sweep->process_count; i++) {
		size_t at = (sweep->turn + i) % sweep->process_count;
		pid_t pid =
			waitpid(sweep->process[at].pid, ret_status, __WALL | __WNOTHREAD | WNOHANG);
		if (pid > 0) {
			sweep->turn = at + 1;
			return pid;
		}
	}
	return waitpid(-1, ret_status, __WALL | __WNOTHREAD);
}

static void take_core(void)
{
	const char *given = getenv("HEAPTAP_SWEEP_CORE");
	int core = given ? (int)strtoul(given, NULL, 10) : sched_getcpu();
	cpu_set_t set;

	if (core < 0 || (!given && sample_is_whole()))
		return;
	CPU_ZERO(&set);
	CPU_SET(core, &set);
	ck_assert_msg(sched_setaffinity(0, sizeof(set), &set) == 0, "no core %d", core);
}

/* A thread of its own, whose children and tracees are heaptap's processes alone: it can wait for
 * all of them without taking an event from the rest of the test. */
static void *trace(void *context)
{
	struct sweep *sweep = context;

	take_core();
	start(sweep);
	for (;;) {
		int status;
		pid_t pid = wait_in_turn(sweep, &status);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			return NULL;
		if (WIFSTOPPED(status)) {
			at_stop(sweep, pid, status);
			continue;
		}
		if (pid == sweep->run.pid) {
			sweep->run.status = status;
			sweep->main_has_ended = true;
			sweep->begun |= sweep->plan.orphans;
		}
		process_forget(sweep, pid);
	}
}

static void run_traced(struct sweep *sweep)
{
	sweep->process = calloc(PROCESSES_MAX, sizeof(*sweep->process));
	ck_assert_ptr_nonnull(sweep->process);
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	ck_assert_int_eq(pthread_create(&sweep->tracer, NULL, trace, sweep), 0);
}

void sweep_start(struct sweep *sweep, const char *const argv[], const struct sweep_plan *plan)
{
	*sweep = (struct sweep){.plan = *plan, .argv = argv};
	if (plan->places)
		places_begin(plan->places);
	run_traced(sweep);
}

void sweep_attach(struct sweep *sweep, pid_t pid, const char *trace, const struct sweep_plan *plan)
{
	*sweep = (struct sweep){.plan = *plan,
		.attach = {run_built("heaptap"), "attach", "-q", "-p", sweep->pid, "-o", trace},
		.argv = sweep->attach};
	snprintf(sweep->pid, sizeof(sweep->pid), "%d", pid);
	run_traced(sweep);
}

static void complain(const struct sweep *sweep, unsigned limit_ms)
{
	char text[4096];
	size_t used = 0;

	for (size_t i = 0; i < sweep->process_count && used < sizeof(text); i++) {
		const struct sweep_process *process = &sweep->process[i];
		used += (size_t)snprintf(text + used, sizeof(text) - used, "; %s (%d) after %s",
			role_names[process->role], process->pid, call_name(process->number));
		used += procsaid(process->pid, text + used, sizeof(text) - used);
	}
	ck_abort_msg("%s: heaptap still runs after %u ms%s; its stderr: %s", sweep_text(sweep),
		limit_ms, text, run_err(&sweep->run));
}

int sweep_wait(struct sweep *sweep, unsigned limit_ms)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += (time_t)(limit_ms / 1000 + 1);
	if (pthread_clockjoin_np(sweep->tracer, NULL, CLOCK_MONOTONIC, &end) != 0)
		complain(sweep, limit_ms);
	sweep->run.ended = true;
	return run_wait(&sweep->run, 0);
}

void sweep_deinit(struct sweep *sweep)
{
	run_deinit(&sweep->run);
	free(sweep->process);
}

const char *sweep_text(const struct sweep *sweep)
{
	static char text[160];
	const struct sweep_plan *plan = &sweep->plan;
	size_t used = (size_t)snprintf(text, sizeof(text), "%s (%d) at call %lu of %s",
		action_names[plan->action], plan->value,
		(unsigned long)(sweep->hit ? sweep->hit_at : plan->at), role_names[plan->role]);

	if (sweep->hit)
		snprintf(text + used, sizeof(text) - used, ", %s by %s",
			call_name(sweep->hit_number), role_names[sweep->hit_role]);
	return text;
}

/* A fixed seed, so that everyone can repeat a run. It is small, so that first_of uses it as it is:
 * the same call even if two attaches differ by a few calls. */
#define SEED_DEFAULT 29
#define FEW	     1 /* points that a sweep tries in a sample */

static uint64_t seed(void)
{
	const char *given = getenv("HEAPTAP_SWEEP_SEED");
	if (!given)
		return sample_seed(SEED_DEFAULT);
	return strcmp(given, "random") ? strtoul(given, NULL, 10) : arc4random_uniform(100000);
}

/* The first point. A seed below `stride` is used as it is. A larger one gives a fraction of the
 * stride, the same for every stride, but another for each sweep's name. */
static uint64_t first_of(const char *name, uint64_t seed_now, uint64_t stride)
{
	uint64_t state = seed_now;
	if (seed_now < stride)
		return seed_now % stride + 1;
	for (const char *c = name; *c; c++)
		state = random_next(&state) ^ (uint64_t)*c;
	return (random_next(&state) >> 48) * stride / (1u << 16) + 1;
}

struct sweep_points sweep_points_of(const char *name, uint64_t calls, unsigned points)
{
	const char *which = getenv("HEAPTAP_SWEEP");
	unsigned wanted = which || points < FEW ? points : sample_size(points, FEW);
	struct sweep_points chosen = {
		.stride = calls / wanted + 1, .last = calls + calls / 2, .count = wanted};
	uint64_t seed_now = seed();
	bool is_number = which && which[0] >= '0' && which[0] <= '9';

	if (which && !strcmp(which, "all"))
		chosen.stride = 1;
	else if (which && which[0] == '/')
		chosen.stride = strtoul(which + 1, NULL, 10);
	chosen.first = first_of(name, seed_now, chosen.stride);
	if (wanted == 1)
		chosen.last = chosen.first;
	if (is_number) {
		chosen.first = strtoul(which, NULL, 10);
		chosen.stride = 1;
		if (!strchr(which, '-'))
			chosen.last = chosen.first;
	}
	printf("sweep: %s, %lu calls, every %lu. from %lu (HEAPTAP_SWEEP_SEED=%lu)\n", name, calls,
		chosen.stride, chosen.first, seed_now);
	return chosen;
}

void sweep_points_check(const struct sweep_points *points, uint64_t calls, uint64_t hits)
{
	uint64_t last = calls < points->last ? calls : points->last;
	uint64_t planned = last < points->first ? 0 : (last - points->first) / points->stride + 1;
	ck_assert_msg(
		hits > 0 && hits >= planned / 2, "%lu of %lu points were reached", hits, planned);
}
