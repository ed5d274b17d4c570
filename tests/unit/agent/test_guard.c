/* SPDX-License-Identifier: Apache-2.0
 *
 * Guards pass each call on unchanged, and note whether it forbids system calls or the clock.
 */
#include "agent/guard.h"

#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent/gate.h"
#include "tests/unit/agent/world.h"

#define PR_TSC_SIGSEGV_VALUE 2
#define ARGUMENTS	     7u

/* Registers that the real function saw: rax rdi rsi rdx rcx r8 r9, the seventh argument, rsp, rbp,
 * rbx. */
enum { SEEN_RAX, SEEN_FIRST, SEEN_STACKED = 7, SEEN_RSP, SEEN_RBP, SEEN_RBX, SEEN_COUNT };

uint64_t guard_seen[SEEN_COUNT];
uint64_t guard_before[SEEN_COUNT]; /* the same before the call; rsp as the callee should see it */
uint64_t guard_argument[ARGUMENTS];
void real_function(void);
long call_guard(void (*guard)(void), const struct abi_thunk *self);

__asm__(".text\n"
	"real_function:\n"
	"	mov	%rax, guard_seen(%rip)\n"
	"	mov	%rdi, guard_seen+8(%rip)\n"
	"	mov	%rsi, guard_seen+16(%rip)\n"
	"	mov	%rdx, guard_seen+24(%rip)\n"
	"	mov	%rcx, guard_seen+32(%rip)\n"
	"	mov	%r8, guard_seen+40(%rip)\n"
	"	mov	%r9, guard_seen+48(%rip)\n"
	"	mov	8(%rsp), %rax\n"
	"	mov	%rax, guard_seen+56(%rip)\n"
	"	mov	%rsp, guard_seen+64(%rip)\n"
	"	mov	%rbp, guard_seen+72(%rip)\n"
	"	mov	%rbx, guard_seen+80(%rip)\n"
	"	mov	$0x5eed, %eax\n"
	"	ret\n"
	"call_guard:\n"
	"	push	%rbp\n"
	"	push	%rbx\n"
	"	mov	%rdi, %r10\n"
	"	mov	%rsi, %r11\n"
	"	mov	$0xb0b, %ebp\n"
	"	mov	$0xbab, %ebx\n"
	"	mov	guard_argument(%rip), %rdi\n"
	"	mov	guard_argument+8(%rip), %rsi\n"
	"	mov	guard_argument+16(%rip), %rdx\n"
	"	mov	guard_argument+24(%rip), %rcx\n"
	"	mov	guard_argument+32(%rip), %r8\n"
	"	mov	guard_argument+40(%rip), %r9\n"
	"	sub	$8, %rsp\n"
	"	push	guard_argument+48(%rip)\n"
	"	mov	$3, %eax\n"
	"	lea	-8(%rsp), %rbx\n"
	"	mov	%rbx, guard_before+64(%rip)\n"
	"	mov	$0xbab, %ebx\n"
	"	call	*%r10\n"
	"	add	$16, %rsp\n"
	"	pop	%rbx\n"
	"	pop	%rbp\n"
	"	ret\n");

static struct abi_thunk thunk;

static void setup(void)
{
	world_make();
	thunk = (struct abi_thunk){
		.real = (uint64_t)real_function, .config = (uint64_t)world_config};
	memset(guard_seen, 0, sizeof(guard_seen));
}

static void check_call(void (*guard)(void), uint64_t first, uint64_t second, uint64_t third)
{
	uint64_t given[ARGUMENTS] = {first, second, third, 104, 105, 106, 107};
	memcpy(guard_argument, given, sizeof(given));
	ck_assert_int_eq(call_guard(guard, &thunk), 0x5eed);
	ck_assert_uint_eq(guard_seen[SEEN_RAX], 3);
	ck_assert_mem_eq(&guard_seen[SEEN_FIRST], given, sizeof(given));
	ck_assert_uint_eq(guard_seen[SEEN_RSP], guard_before[SEEN_RSP]);
	ck_assert_uint_eq(guard_seen[SEEN_RBP], 0xb0b);
	ck_assert_uint_eq(guard_seen[SEEN_RBX], 0xbab);
}

#define SYSCALL_BIT ABI_FORBIDDEN_SYSCALL
#define CLOCK_BIT   ABI_FORBIDDEN_CLOCK

/* Upper halves of ints and results of earlier calls may hold anything. */
#define DIRT 0xdead00000000ull

HT_TEST(notes_forbidden_calls)
{
	static const struct {
		void (*guard)(void);
		uint64_t first, second, third, forbidden;
	} cases[] = {
		{heaptap_guard_prctl, PR_SET_NAME, 1, 2, 0},
		{heaptap_guard_prctl, PR_SET_NO_NEW_PRIVS, 1, 2, 0},
		{heaptap_guard_prctl, PR_SET_SECCOMP, 2, 0, SYSCALL_BIT},
		{heaptap_guard_prctl, DIRT | PR_SET_SECCOMP, 2, 0, SYSCALL_BIT},
		{heaptap_guard_prctl, PR_SET_SECCOMP, 1, 0, SYSCALL_BIT | CLOCK_BIT},
		{heaptap_guard_prctl, PR_SET_TSC, 1, 0, 0},
		{heaptap_guard_prctl, PR_SET_TSC, PR_TSC_SIGSEGV_VALUE, 0, CLOCK_BIT},
		{heaptap_guard_prctl, PR_SET_SYSCALL_USER_DISPATCH, 0, 1, 0},
		{heaptap_guard_prctl, PR_SET_SYSCALL_USER_DISPATCH, 1, 1, SYSCALL_BIT},
		{heaptap_guard_prctl, PR_SET_SYSCALL_USER_DISPATCH, 2, 1, SYSCALL_BIT},
		{heaptap_guard_syscall, SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, 1, SYSCALL_BIT},
		{heaptap_guard_syscall, SYS_getpid, PR_SET_SECCOMP, 1, 0},
		{heaptap_guard_syscall, SYS_prctl, PR_SET_NAME, 1, 0},
		{heaptap_guard_syscall, SYS_prctl, PR_SET_SECCOMP, 2, SYSCALL_BIT},
		{heaptap_guard_syscall, SYS_prctl, PR_SET_SECCOMP, 1, SYSCALL_BIT | CLOCK_BIT},
		{heaptap_guard_syscall, SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV_VALUE, CLOCK_BIT},
		{heaptap_guard_syscall, SYS_seccomp, 1, 1, SYSCALL_BIT},
		{heaptap_guard_syscall, DIRT | SYS_seccomp, DIRT | 1, 1, SYSCALL_BIT},
		{heaptap_guard_syscall, SYS_seccomp, 0, 0, SYSCALL_BIT | CLOCK_BIT},
		{heaptap_guard_syscall, SYS_seccomp, 2, 0, 0}, /* SECCOMP_GET_ACTION_AVAIL */
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		setup();
		check_call(cases[i].guard, cases[i].first, cases[i].second, cases[i].third);
		ck_assert_uint_eq(world_control->forbidden, cases[i].forbidden);
		ck_assert_uint_eq(
			world_state->alive, cases[i].forbidden & CLOCK_BIT ? ABI_MUTE : ABI_ALIVE);
		ck_assert_uint_eq(sys_fake.calls, 0);
	}
}

HT_TEST(a_child_forbids_its_parent_nothing)
{
	setup();
	world_state->alive = ABI_FORKED;
	check_call(heaptap_guard_prctl, PR_SET_SECCOMP, 1, 0);
	ck_assert_uint_eq(world_control->forbidden, 0);
	ck_assert_uint_eq(world_state->alive, ABI_FORKED);
}

static struct abi_slot *other;
static unsigned pauses, ends_at_pause;

static void fake_pause(void)
{
	uint64_t before;
	ck_assert_uint_eq(world_control->forbidden, ABI_FORBIDDEN_SYSCALL);
	ck_assert(!gate_enter(world_config, &world_slots[1], &before));
	if (++pauses == ends_at_pause)
		gate_leave(world_config, other, 0);
}

static void setup_other(uint64_t key)
{
	setup();
	pauses = 0;
	sys_fake.pause = fake_pause;
	other = &world_slots[5];
	other->head.key = key;
	other->head.calling = 1;
	world_control->claimed[0] = 1 << 5;
}

HT_TEST(calls_of_others_are_waited_for)
{
	setup_other(0x1000);
	ends_at_pause = 7;
	check_call(heaptap_guard_prctl, PR_SET_SECCOMP, 2, 0);
	ck_assert_uint_eq(pauses, 7);
	ck_assert_uint_eq(other->head.calling, 0);
}

/* Threads that were within a hook when recording ended may still walk their stacks, or send. */
HT_TEST(guards_after_recording_ended)
{
	setup_other(0x1000);
	config_give_up(world_config);
	ck_assert_uint_eq(world_state->alive, ABI_MUTE);
	ends_at_pause = 7;
	check_call(heaptap_guard_prctl, PR_SET_SECCOMP, 2, 0);
	ck_assert_uint_eq(pauses, 7);
	ck_assert_uint_eq(world_control->forbidden, ABI_FORBIDDEN_SYSCALL);
}

HT_TEST(not_for_ever)
{
	setup_other(0x1000);
	ends_at_pause = 0;
	uint64_t since = sys_fake.tsc;
	check_call(heaptap_guard_prctl, PR_SET_SECCOMP, 2, 0);
	ck_assert_uint_le(sys_fake.tsc - since, world_config->wait_cycles_max + 100);
	ck_assert_uint_gt(pauses, 10);
}

HT_TEST(not_for_the_dead_nor_oneself)
{
	const uint64_t key[] = {
		0x1000 | ABI_SLOT_DEAD, (uint64_t)&world_tcb, (uint64_t)&world_tcb + 2};
	for (size_t i = 0; i < HT_ARRAY_SIZE(key); i++) {
		setup_other(key[i]);
		check_call(heaptap_guard_prctl, PR_SET_SECCOMP, 2, 0);
		ck_assert_uint_eq(pauses, 0);
	}
}

HT_TEST(gates_nest)
{
	uint64_t outer, inner;
	setup();
	struct abi_slot *slot = &world_slots[0];
	ck_assert(gate_enter(world_config, slot, &outer));
	ck_assert(gate_enter(world_config, slot, &inner)); /* in a handler */
	gate_leave(world_config, slot, inner);
	ck_assert_uint_eq(slot->head.calling, 1);
	world_control->forbidden = ABI_FORBIDDEN_SYSCALL;
	ck_assert(!gate_enter(world_config, slot, &inner));
	ck_assert_uint_eq(slot->head.calling, 1);
	gate_leave(world_config, slot, outer);
	ck_assert_uint_eq(slot->head.calling, 0);
}

/* The detach is taking the guards out. */
HT_TEST(the_gate_is_closed_at_stop)
{
	uint64_t before;
	setup();
	world_config->stop = 1;
	ck_assert(!gate_enter(world_config, &world_slots[0], &before));
	ck_assert_uint_eq(world_slots[0].head.calling, 0);
}

/* --- exec --- */

#define TID 71

static unsigned waits, answer_at;
static void (*answer)(void);

static void hold_it(void)
{
	world_control->exec_held = TID;
}

static void refuse_it(void)
{
	world_control->exec_asks = 0;
}

static long fake_wait(int fd)
{
	ck_assert_int_eq(fd, -1);
	ck_assert_uint_eq(world_control->exec_asks, TID);
	ck_assert_uint_eq(world_control->exec_calling, 1);
	if (++waits == answer_at)
		answer();
	return 0;
}

static void setup_exec(void (*how)(void), unsigned at)
{
	setup();
	waits = 0;
	answer = how;
	answer_at = at;
	sys_fake.tid = TID;
	sys_fake.wait_writable = fake_wait;
	world_config->follow = 1; /* the PID that the fake getpid returns */
}

static void check_exec(unsigned expected_waits, uint64_t asks)
{
	static void (*const guards[])(void) = {heaptap_guard_execve, heaptap_guard_execv,
		heaptap_guard_execvp, heaptap_guard_execvpe, heaptap_guard_execl,
		heaptap_guard_execlp, heaptap_guard_execle, heaptap_guard_fexecve,
		heaptap_guard_execveat};
	for (size_t i = 0; i < HT_ARRAY_SIZE(guards); i++) {
		uint64_t before = world_control->exec_asks;
		waits = 0;
		check_call(guards[i], DIRT | 1, 2, 3);
		ck_assert_uint_eq(waits, expected_waits);
		ck_assert_uint_eq(world_control->exec_asks, asks);
		ck_assert_uint_eq(world_control->exec_calling, 0);
		world_control->exec_asks = before;
		world_control->exec_held = 0;
	}
}

HT_TEST(an_exec_waits_until_it_is_held)
{
	setup_exec(hold_it, 3);
	check_exec(3, TID);
	setup_exec(refuse_it, 2);
	check_exec(2, 0);
	setup_exec(refuse_it, 2);
	check_call(heaptap_guard_syscall, DIRT | SYS_execve, 2, 3);
	ck_assert_uint_eq(waits, 2);
	setup_exec(refuse_it, 2);
	check_call(heaptap_guard_syscall, SYS_execveat, 2, 3);
	ck_assert_uint_eq(waits, 2);
}

HT_TEST(exec_wait_is_bounded)
{
	setup_exec(hold_it, 0);
	check_exec(3000, ABI_EXEC_ASKING);
	/* The next exec does not wait again. */
	world_control->exec_asks = ABI_EXEC_ASKING;
	check_exec(0, ABI_EXEC_ASKING);
}

HT_TEST(unfollowed_process_does_not_wait)
{
	setup_exec(hold_it, 1);
	world_config->follow = 0;
	check_exec(0, 0);
	ck_assert_uint_eq(sys_fake.calls, 0);
	/* A child in vfork does not wait. */
	world_config->follow = 2;
	check_exec(0, 0);
	setup_exec(hold_it, 1);
	world_state->alive = ABI_FORKED;
	check_exec(0, 0);
	/* Nor does an exec beside one that waits, nor the next exec of a thread that is held. */
	setup_exec(hold_it, 1);
	world_control->exec_asks = TID;
	check_exec(0, TID);
	ck_assert_uint_eq(sys_fake.calls, 0);
}

HT_TEST(an_exec_makes_no_call_that_is_forbidden)
{
	setup_exec(hold_it, 1);
	world_control->forbidden = ABI_FORBIDDEN_SYSCALL;
	check_exec(0, 0);
	setup_exec(hold_it, 1);
	world_config->stop = 1;
	check_exec(0, 0);
	setup_exec(hold_it, 1);
	world_config->flags = ABI_FLAG_NO_SYSCALL;
	check_exec(0, 0);
	ck_assert_uint_eq(sys_fake.calls, 0);
}

/* --- what makes children --- */

static void check_birth(unsigned expected_waits, uint64_t asks, uint64_t counted)
{
	static void (*const guards[])(void) = {heaptap_guard_fork, heaptap_guard_vfork,
		heaptap_guard_posix_spawn, heaptap_guard_posix_spawnp, heaptap_guard_system,
		heaptap_guard_popen, heaptap_guard_forkpty, heaptap_guard_daemon};
	for (size_t i = 0; i < HT_ARRAY_SIZE(guards); i++) {
		uint64_t before = world_control->exec_asks;
		waits = 0;
		world_control->forks = 0;
		check_call(guards[i], DIRT | 1, 2, 3);
		ck_assert_uint_eq(waits, expected_waits);
		ck_assert_uint_eq(world_control->exec_asks, asks);
		ck_assert_uint_eq(world_control->exec_calling, 0);
		ck_assert_uint_eq(world_control->forks, counted);
		world_control->exec_asks = before;
		world_control->exec_held = 0;
	}
}

HT_TEST(a_fork_waits_until_it_is_held)
{
	setup_exec(hold_it, 3);
	world_config->follow_forks = 1;
	check_birth(3, TID, 1);
	ck_assert_uint_eq(world_control->exec_forks, 1);
	setup_exec(refuse_it, 2);
	world_config->follow_forks = 1;
	check_birth(2, 0, 1);
	setup_exec(hold_it, 0);
	world_config->follow_forks = 1;
	check_birth(1000, ABI_EXEC_ASKING, 1);
	/* The request of an exec is not taken for a fork's. */
	setup_exec(hold_it, 1);
	world_control->exec_forks = 1;
	check_exec(1, TID);
	ck_assert_uint_eq(world_control->exec_forks, 0);
}

HT_TEST(counts_unfollowed_forks)
{
	setup_exec(hold_it, 1);
	check_birth(0, 0, 1);
	ck_assert_uint_eq(sys_fake.calls, 0);
	/* Neither a child in vfork waits, nor a forked child that heaptap does not record. */
	world_config->follow_forks = 1;
	world_config->follow = 2;
	check_birth(0, 0, 1);
	setup_exec(hold_it, 1);
	world_config->follow_forks = 1;
	world_state->alive = ABI_FORKED;
	check_birth(0, 0, 0);
	setup_exec(hold_it, 1);
	world_config->follow_forks = 1;
	world_control->forbidden = ABI_FORBIDDEN_SYSCALL;
	check_birth(0, 0, 1);
	ck_assert_uint_eq(sys_fake.calls, 0);
}

static void fake_pause_of_exec(void)
{
	if (++pauses == ends_at_pause)
		world_control->exec_calling = 0;
}

HT_TEST(calls_of_an_exec_are_waited_for)
{
	setup();
	pauses = 0;
	ends_at_pause = 5;
	sys_fake.pause = fake_pause_of_exec;
	world_control->exec_calling = 1;
	check_call(heaptap_guard_prctl, PR_SET_SECCOMP, 2, 0);
	ck_assert_uint_eq(pauses, 5);
}

HT_SUITE("agent/guard")
