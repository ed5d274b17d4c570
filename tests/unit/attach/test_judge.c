/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/judge.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"
#include "attach/thread/tracee.h"
#include "tests/support/ht_check.h"
#include "tests/unit/attach/agentcode.h"

#define FAR_NS	    (60 * CLOCK_NS_PER_S)
#define STACK_BYTES 16384u

static void *wait_in_thread(void *arg)
{
	(void)arg;
	child_ready(gettid());
	child_wait();
}

static void in_thread(const void *arg)
{
	pthread_t thread;
	(void)arg;
	pthread_create(&thread, NULL, wait_in_thread, NULL);
	pthread_join(thread, NULL);
}

/* Begins a coroutine as libraries do: the unwind table says that begin_context has no caller. */
_Noreturn void begin_context(void *stack_end);
_Noreturn void wait_in_context(void);

__asm__(".text\n"
	"begin_context:\n"
	"	.cfi_startproc\n"
	"	.cfi_undefined rip\n"
	"	mov %rdi, %rsp\n"
	"	call wait_in_context\n"
	"	hlt\n"
	"	.cfi_endproc\n");

void wait_in_context(void)
{
	child_ready(0);
	child_wait();
}

/* Runs a coroutine whose stack is an array in a frame of the thread's own stack. */
static void in_context_within(const void *arg)
{
	_Alignas(16) char stack[STACK_BYTES];
	(void)arg;
	begin_context(stack + sizeof(stack));
}

/* The thread waits, and an array in its frame has one word that leads into the agent, as the stack
 * of a coroutine that is suspended in a hook. */
static void with_word_in_array(const void *arg)
{
	volatile raddr_t stack[STACK_BYTES / sizeof(raddr_t)];
	(void)arg;
	for (size_t i = 0; i < HT_ARRAY_SIZE(stack); i++)
		stack[i] = i == HT_ARRAY_SIZE(stack) / 2 ? (raddr_t)agent_sleep : 0;
	child_ready((long)stack[0]);
	child_wait();
}

static void judge_both_with(const struct stackscan_ranges *ranges, void (*body)(const void *arg),
	enum judge_result frames, enum judge_result whole)
{
	struct child child = child_fork(body, NULL);
	pid_t tid = body == in_thread ? (pid_t)child.value : child.pid;
	struct tracee tracee;
	enum tracee_result stopped;
	enum judge_result result;
	struct proc proc;
	while (child_call(tid) != SYS_pause)
		clock_sleep_ns(CLOCK_NS_PER_MS);
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	ck_no_err(tracee_stop(tid, clock_mono_ns() + FAR_NS, false, &tracee, &stopped));
	ck_assert_int_eq(stopped, TRACEE_STOPPED);
	ck_no_err(judge_frames(&proc, tid, ranges, &result));
	ck_assert_int_eq(result, frames);
	ck_no_err(judge_whole(&proc, tid, ranges, &result));
	ck_assert_int_eq(result, whole);
	ck_no_err(tracee_release(&tracee));
	proc_close(&proc);
	child_kill(&child);
}

static void judge_both(
	void (*body)(const void *arg), enum judge_result frames, enum judge_result whole)
{
	judge_both_with(&agentcode, body, frames, whole);
}

HT_TEST(threads_to_their_ends)
{
	judge_both(outside, JUDGE_OUTSIDE, JUDGE_OUTSIDE);
	judge_both(in_thread, JUDGE_OUTSIDE, JUDGE_OUTSIDE);
	judge_both(with_stale_word, JUDGE_OUTSIDE, JUDGE_OUTSIDE);
	judge_both(in_frame, JUDGE_INSIDE, JUDGE_INSIDE);
	judge_both(at_pc, JUDGE_INSIDE, JUDGE_INSIDE);
	judge_both(in_handler, JUDGE_INSIDE, JUDGE_INSIDE);
}

HT_TEST(code_without_tables_is_undecided)
{
	judge_both(lost, JUDGE_UNDECIDED, JUDGE_UNDECIDED);
	judge_both(behind_unknown, JUDGE_UNDECIDED, JUDGE_UNDECIDED);
}

static void judge_left(void (*body)(const void *arg), const char *left, enum judge_result result)
{
	struct stackscan_ranges ranges = agentcode;
	ranges.slack_left = (raddr_t)left;
	judge_both_with(&ranges, body, result, result);
}

/* The return address of a call that never returns does not count as inside, but a PC there does. */
HT_TEST(a_call_that_never_returns_is_outside)
{
	judge_left(in_frame, agent_frame_left, JUDGE_OUTSIDE);
	judge_left(in_frame, agent_frame_left + 1, JUDGE_INSIDE);
	judge_left(in_handler, (const char *)agent_trap + 1, JUDGE_INSIDE);
}

HT_TEST(stacks_within_a_frame_of_the_threads_own)
{
	judge_both(in_context_within, JUDGE_OUTSIDE, JUDGE_UNDECIDED);
	judge_both(with_word_in_array, JUDGE_OUTSIDE, JUDGE_INSIDE);
}

HT_SUITE("attach/proof/judge")
