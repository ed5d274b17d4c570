/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that sleeps in the allocator, and signal handlers that interrupt it there. The
 * allocator, libownalloc.so, is safe for that. Commands:
 *
 *      hold        the thread goes to sleep in malloc; answers "held"
 *      handle HOW  the thread's signal handler runs there. HOW says what the handler does: "malloc"
 *                  allocates and returns; "sleep" sleeps too, on an alternate stack; "jump" leaves
 *                  by siglongjmp; "swap" changes to another context, which goes on allocating;
 *                  "within" the same, with an array in the thread's own stack as that context's
 *                  stack; "rest" as within, but that context only sleeps. Answers once it does so
 *      disarm      from now on the alternate stack is an array in the thread's own stack, with
 *                  SS_AUTODISARM
 *      wake        malloc, a sleeping handler and another context return; answers "woken" when the
 *                  thread has ended its call of malloc
 *      storm       from now on the handler jumps out of the interrupted code, up to 2000 times a
 *                  second
 *      rain        the same with a handler that allocates and returns, on an alternate stack;
 *                  answers when the handler has run RAIN times
 *      calm        ends storm or rain. Commands without another answer answer "done"
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

#include "tests/targets/ownalloc.h"
#include "tests/targets/speak.h"

#define RAIN 2000

enum how { RETURN, MALLOC, SLEEP, ALLOCATE, JUMP, SWAP, WITHIN, REST, HOWS };

static pthread_t worker, storm_thread;
static sigjmp_buf point;
static ucontext_t inside, outside;
static char outside_stack[1 << 16], handler_stack[1 << 16], *stack_within;
static atomic_int wanted, handled, how, storming, armed, disarming;

static void pause_ms(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void allocate(void)
{
	unsigned char *ptr = malloc(100);
	ptr[0] = 1;
	free(ptr);
}

static void run_outside(void)
{
	atomic_store(&handled, 1);
	while (atomic_load(&ownalloc_hold)) {
		if (atomic_load(&how) != REST)
			allocate();
		pause_ms();
	}
	setcontext(&inside);
}

static void on_signal(int signal)
{
	(void)signal;
	switch (atomic_load(&how)) {
	case MALLOC:
		allocate();
		atomic_store(&handled, 1);
		break;
	case SLEEP:
		atomic_store(&handled, 1);
		while (atomic_load(&ownalloc_hold))
			pause_ms();
		break;
	case ALLOCATE:
		allocate();
		atomic_fetch_add(&handled, 1);
		break;
	case JUMP:
		if (atomic_load(&armed))
			siglongjmp(point, 1);
		break;
	case SWAP:
	case WITHIN:
	case REST:
		getcontext(&outside);
		outside.uc_stack.ss_sp = atomic_load(&how) == SWAP ? outside_stack : stack_within;
		outside.uc_stack.ss_size = sizeof(outside_stack);
		makecontext(&outside, run_outside, 0);
		swapcontext(&inside, &outside);
		break;
	default:
		break;
	}
}

static uint64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* At most 1000 blocks a millisecond, because the allocator takes only the newest block back. */
static void go_through_storm(void)
{
	while (atomic_load(&storming)) {
		uint64_t end_us = now_us() + 1000;
		if (sigsetjmp(point, 1) == 0)
			atomic_store(&armed, 1);
		for (unsigned i = 0; i < 1000; i++)
			allocate();
		atomic_store(&armed, 0);
		while (now_us() < end_us)
			;
	}
}

static void *work(void *arg)
{
	stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof(handler_stack)};
	char within[sizeof(outside_stack)];
	stack_within = within;
	sigaltstack(&stack, NULL);
	for (;; pause_ms()) {
		go_through_storm();
		if (atomic_load(&disarming)) {
			stack.ss_sp = within;
			stack.ss_flags = (int)SS_AUTODISARM;
			if (sigaltstack(&stack, NULL))
				speak_fail("sigaltstack: errno %d", errno);
			atomic_store(&disarming, 0);
		}
		if (!atomic_load(&wanted))
			continue;
		if (sigsetjmp(point, 1) == 0) {
			atomic_store(&armed, 1);
			unsigned char *ptr = malloc(OWNALLOC_SLOW);
			ptr[OWNALLOC_SLOW - 1] = 1;
			free(ptr);
		}
		atomic_store(&armed, 0);
		atomic_store(&handled, 1);
		atomic_store(&wanted, 0);
		while (atomic_load(&ownalloc_hold))
			pause_ms();
		/* Clears the array: heaptap could take old words for a context that will be
		 * resumed. */
		memset(within, 0, sizeof(within));
	}
	return arg;
}

static void *storm(void *arg)
{
	while (atomic_load(&storming)) {
		pthread_kill(worker, SIGUSR1);
		nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
	return arg;
}

static void handle_signals(int flags)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
	sigaction(SIGUSR1, &action, NULL);
}

static void wait_for(atomic_int *flag, int value)
{
	while (atomic_load(flag) != value)
		pause_ms();
}

static const char *obey(const char *command)
{
	static const char *const names[HOWS] = {
		"return", "malloc", "sleep", "allocate", "jump", "swap", "within", "rest"};
	if (!strcmp(command, "hold")) {
		atomic_store(&ownalloc_held, 0);
		atomic_store(&ownalloc_hold, 1);
		atomic_store(&wanted, 1);
		wait_for(&ownalloc_held, 1);
		return "held";
	}
	if (!strcmp(command, "wake")) {
		atomic_store(&ownalloc_hold, 0);
		wait_for(&wanted, 0);
		return "woken";
	}
	if (!strcmp(command, "disarm")) {
		atomic_store(&disarming, 1);
		wait_for(&disarming, 0);
	} else if (!strcmp(command, "storm")) {
		handle_signals(0);
		atomic_store(&how, JUMP);
		atomic_store(&storming, 1);
		pthread_create(&storm_thread, NULL, storm, NULL);
	} else if (!strcmp(command, "rain")) {
		handle_signals(SA_ONSTACK);
		atomic_store(&how, ALLOCATE);
		atomic_store(&handled, 0);
		atomic_store(&storming, 1);
		pthread_create(&storm_thread, NULL, storm, NULL);
		while (atomic_load(&handled) < RAIN)
			pause_ms();
	} else if (!strcmp(command, "calm")) {
		atomic_store(&storming, 0);
		pthread_join(storm_thread, NULL);
	}
	for (int i = 0; i < HOWS && !strncmp(command, "handle ", 7); i++) {
		if (strcmp(command + 7, names[i]))
			continue;
		handle_signals(i == SLEEP ? SA_ONSTACK : 0);
		atomic_store(&handled, 0);
		atomic_store(&how, i);
		pthread_kill(worker, SIGUSR1);
		wait_for(&handled, 1);
	}
	return "done";
}

int main(void)
{
	handle_signals(0);
	pthread_create(&worker, NULL, work, NULL);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		speak_add("%s", obey(command));
		speak_send();
	}
	_exit(0);
}
