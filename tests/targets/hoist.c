/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop that never ends around malloc and free whose addresses clang -fno-plt -O2 loads once,
 * before the loop, into registers: they hold what the GOT held then. "restart" leaves the loop and
 * enters it again, so that the registers are loaded anew. "count" answers with the rounds so far.
 * With -r a thread restarts it up to a thousand times a second. With -e the loop calls nothing and
 * has free's address in every general register but rsp, with -v in every SSE register and in no
 * general one. At the end of this loop all of them must hold the same address, which is called.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "tests/targets/speak.h"

#define THREADS 2

static atomic_ullong rounds;
static atomic_uint generation;

__attribute__((noinline)) static void loop(unsigned mine)
{
	for (uint64_t i = 0; atomic_load_explicit(&generation, memory_order_relaxed) == mine; i++) {
		void *volatile ptr = malloc(16 + i % 100);
		free(ptr);
		atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
	}
}

static void *run(void *arg)
{
	(void)arg;
	for (;;)
		loop(atomic_load(&generation));
	return NULL;
}

#define REGISTERS   15	  /* for vectors: both halves of seven, and the first half of xmm15 */
#define STACK_BYTES 65536 /* more than hooks use */

uint64_t hoist_held[REGISTERS];
atomic_uint hoist_leave, hoist_entered;
void hoist_hold(void), hoist_hold_in_vectors(void);

__asm__(".text\n"
	"hoist_hold:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n"
	"	push %r14\n	push %r15\n"
	"	.irp r, rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15\n"
	"	mov free@GOTPCREL(%rip), %\\r\n"
	"	.endr\n"
	"	movl $1, hoist_entered(%rip)\n"
	"1:	cmpl $0, hoist_leave(%rip)\n"
	"	je 1b\n"
	"	.set n, 0\n"
	"	.irp r, rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15\n"
	"	mov %\\r, hoist_held+8*n(%rip)\n"
	"	.set n, n+1\n"
	"	.endr\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %rbp\n	pop %rbx\n"
	"	ret\n"
	"hoist_hold_in_vectors:\n"
	"	movq free@GOTPCREL(%rip), %xmm0\n"
	"	movhps free@GOTPCREL(%rip), %xmm0\n"
	"	.irp r, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"	movdqa %xmm0, %xmm\\r\n"
	"	.endr\n"
	"	movl $1, hoist_entered(%rip)\n"
	"1:	cmpl $0, hoist_leave(%rip)\n"
	"	je 1b\n"
	"	.set n, 0\n"
	"	.irp r, 0, 1, 7, 8, 9, 10, 14\n"
	"	movdqu %xmm\\r, hoist_held+8*n(%rip)\n"
	"	.set n, n+2\n"
	"	.endr\n"
	"	movq %xmm15, hoist_held+8*n(%rip)\n"
	"	ret\n");

static void (*hold_how)(void) = hoist_hold;

/* Overwrites memory below the stack pointer: heaptap would take old words of hooks there for kept
 * addresses. */
__attribute__((noinline)) static void wipe_stack(void)
{
	volatile char below[STACK_BYTES];
	for (size_t i = 0; i < sizeof(below); i++)
		below[i] = 0;
}

static void *hold(void *arg)
{
	for (;; atomic_fetch_add(&rounds, 1)) {
		wipe_stack();
		hold_how();
		for (int i = 1; i < REGISTERS; i++)
			if (hoist_held[i] != hoist_held[0])
				speak_fail("register %d holds %lx, not %lx", i, hoist_held[i],
					hoist_held[0]);
		((void (*)(void *))hoist_held[0])(malloc(16));
		memset(hoist_held, 0, sizeof(hoist_held));
		atomic_store(&hoist_leave, 0);
	}
	return arg;
}

static void hold_anew(void)
{
	atomic_store(&hoist_entered, 0);
	atomic_store(&hoist_leave, 1);
	while (!atomic_load(&hoist_entered))
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *restart(void *arg)
{
	for (;; nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL))
		atomic_fetch_add(&generation, 1);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS], restarter;
	if (argc > 1 && !strcmp(argv[1], "-r"))
		pthread_create(&restarter, NULL, restart, NULL);
	bool everywhere = argc > 1 && (!strcmp(argv[1], "-e") || !strcmp(argv[1], "-v"));
	if (everywhere && !strcmp(argv[1], "-v"))
		hold_how = hoist_hold_in_vectors;
	for (int i = 0; i < (everywhere ? 1 : THREADS); i++)
		pthread_create(&thread[i], NULL, everywhere ? hold : run, NULL);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "restart") && everywhere)
			hold_anew();
		else if (!strcmp(command, "restart"))
			atomic_fetch_add(&generation, 1);
		speak_add("%llu", atomic_load(&rounds));
		speak_send();
	}
	_exit(0);
}
