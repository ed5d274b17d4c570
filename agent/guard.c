/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/guard.h"

#include "agent/config.h"
#include "agent/gate.h"
#include "agent/sys.h"

_Static_assert(offsetof(struct abi_thunk, real) == 8, "guard_entry.S");

/* Seccomp's strict mode also forbids its thread to read the clock. */
#define STRICT (ABI_FORBIDDEN_SYSCALL | ABI_FORBIDDEN_CLOCK)

/* assumed length of a pause instruction, which takes 10 to 140 cycles depending on the processor */
#define PAUSE_CYCLES 64u

#define EXEC_STEP_NS 1000000
#define EXEC_STEPS   3000u
#define FORK_STEPS   1000u

/* The kernel's numbers. */
enum {
	SYSCALL_EXECVE = 59,
	SYSCALL_EXECVEAT = 322,
	SYSCALL_PRCTL = 157,
	SYSCALL_SECCOMP = 317,
	PRCTL_SECCOMP = 22,
	PRCTL_TSC = 26,
	PRCTL_DISPATCH = 59,
	PRCTL_DISPATCH_OFF = 0,
	PRCTL_SECCOMP_STRICT = 1,
	PRCTL_TSC_SIGSEGV = 2,
	SECCOMP_STRICT = 0,
	SECCOMP_FILTER = 1,
};

static bool is_calling(const struct abi_slot *slot)
{
	uint64_t key = load_acquire(&slot->head.key);
	if (!load_acquire(&slot->head.calling) || key & ABI_SLOT_DEAD)
		return false;
	/* If this thread itself is in the call, this code runs in a signal handler that interrupted
	 * the call: do not wait for it. */
	return (key & ~15ull) != (sys_thread_pointer() & ~15ull);
}

/* Waits until no thread is within the gate, at most about wait_cycles_max for each of the two marks
 * below and for all slots together. Counts turns because the clock may be forbidden already, or a
 * signal handler may forbid it meanwhile. */
static void wait_for_calls(const struct abi_config *config, const struct abi_control *control)
{
	uint64_t turns = config->wait_cycles_max / PAUSE_CYCLES;
	/* Each mark has its own limit: a vfork child that is killed in its call leaves exec_calling
	 * set for ever. */
	for (uint64_t left = turns; left && load_acquire(&control->exec_calling); left--)
		sys_pause();
	for (uint64_t left = turns; left && load_acquire(&control->load_calling); left--)
		sys_pause();
	for (uint64_t i = 0; i <= config->slot_mask; i++) {
		const struct abi_slot *slot = config_slots(config) + i;
		if (!(load_acquire(&control->claimed[i / 64 % HT_ARRAY_SIZE(control->claimed)]) >>
				    i % 64 &
			    1))
			continue;
		for (; turns && is_calling(slot); turns--)
			sys_pause();
	}
}

static void forbid(const struct abi_thunk *self, uint64_t what)
{
	const struct abi_config *config = config_of(self);

	/* A forked child cannot forbid its parent anything. Wait even if recording has ended: a
	 * thread that was in a hook at that time may still make a system call. */
	if (!config_alive(config))
		return;
	config_forbid(config, what);
	wait_for_calls(config, config_control(config));
}

void guard_prctl(uint64_t option, uint64_t mode, const struct abi_thunk *self)
{
	uint32_t what = (uint32_t)option;
	if (what == PRCTL_SECCOMP)
		forbid(self, mode == PRCTL_SECCOMP_STRICT ? STRICT : ABI_FORBIDDEN_SYSCALL);
	else if (what == PRCTL_DISPATCH && mode != PRCTL_DISPATCH_OFF)
		forbid(self, ABI_FORBIDDEN_SYSCALL);
	else if (what == PRCTL_TSC && mode == PRCTL_TSC_SIGSEGV)
		forbid(self, ABI_FORBIDDEN_CLOCK);
}

void guard_syscall(uint64_t number, uint64_t first, uint64_t second, const struct abi_thunk *self)
{
	uint32_t what = (uint32_t)number, operation = (uint32_t)first;
	if (what == SYSCALL_PRCTL)
		guard_prctl(first, second, self);
	else if (what == SYSCALL_SECCOMP && operation == SECCOMP_STRICT)
		forbid(self, STRICT);
	else if (what == SYSCALL_SECCOMP && operation == SECCOMP_FILTER)
		forbid(self, ABI_FORBIDDEN_SYSCALL);
	else if (what == SYSCALL_EXECVE || what == SYSCALL_EXECVEAT)
		guard_exec(self);
}

/* The tid of the asking thread; 0: its process is not followed, or the gate is closed. A vfork
 * child runs in this memory with its parent's thread pointer, so only the kernel can tell the two
 * apart. */
static uint64_t find_asker(const struct abi_config *config, struct abi_control *control)
{
	uint64_t tid = 0;

	if (!gate_enter_by(config, &control->exec_calling))
		return 0;
	if ((uint64_t)sys_getpid() == config->follow)
		tid = (uint64_t)sys_gettid();
	store_release(&control->exec_calling, 0);
	return tid;
}

static bool is_answered(const struct abi_control *control, uint64_t tid)
{
	return load_acquire(&control->exec_asks) != tid || load_acquire(&control->exec_held) == tid;
}

/* Waits until the daemon holds this thread or lets it go on. */
static void ask(const struct abi_config *config, uint64_t forks)
{
	struct abi_control *control = config_control(config);
	uint64_t none = 0;

	if (!compare_swap(&control->exec_asks, &none, ABI_EXEC_ASKING))
		return;
	uint64_t tid = find_asker(config, control);
	store_release(&control->exec_forks, forks);
	store_release(&control->exec_asks, tid);
	unsigned step = 0, steps = forks ? FORK_STEPS : EXEC_STEPS;
	for (; tid && step < steps && !is_answered(control, tid); step++) {
		if (!gate_enter_by(config, &control->exec_calling))
			break;
		sys_wait_writable(-1, (struct sys_timespec){.nsec = EXEC_STEP_NS});
		store_release(&control->exec_calling, 0);
	}
	/* If the daemon holds this thread, exec_asks keeps its tid. If the daemon did not answer,
	 * no thread asks again, because execvp may try many paths and would wait at each. */
	if (tid && load_acquire(&control->exec_held) != tid)
		compare_swap(&control->exec_asks, &tid, step == steps ? ABI_EXEC_ASKING : 0);
}

void guard_exec(const struct abi_thunk *self)
{
	const struct abi_config *config = config_of(self);

	if (load_relaxed(&config->follow) && config_alive(config))
		ask(config, 0);
}

void guard_fork(const struct abi_thunk *self)
{
	const struct abi_config *config = config_of(self);

	if (!config_alive(config))
		return;
	fetch_add(&config_control(config)->forks, 1);
	if (load_acquire(&config->follow_forks))
		ask(config, 1);
}
