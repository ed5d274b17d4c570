/* SPDX-License-Identifier: Apache-2.0
 *
 * The stacks of a thread and of its coroutines are in one mapping, side by side; with "within" the
 * coroutines' stacks are in an array on the thread's stack. The upper coroutine allocates, and its
 * stack is unmapped, or made unreadable; then the lower one allocates. Or, as "array", there is no
 * coroutine: two functions allocate in turn, and the second one in front of an array that cannot be
 * read. "count" answers with the number of such rounds.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/targets/speak.h"

#define STACK_BYTES 0x40000ul
#define ARRAY_BYTES 0x4000ul

enum { LOWER, UPPER = 2, OWN = 4, WITHIN = 3, STACKS = 8 };

static char *pool;
static atomic_ulong rounds;
static atomic_bool stopping;
static unsigned long thread_sp, coroutine_sp;
static void *volatile block;

/* Saves the callee-saved registers and the stack pointer, and continues at the stack `to`. */
void change_stack(unsigned long *ret_sp, unsigned long to);
__asm__(".text\n"
	"change_stack:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	push %r12\n"
	"	push %r13\n"
	"	push %r14\n"
	"	push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15\n"
	"	pop %r14\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n");

__attribute__((noinline)) static void allocate(unsigned depth)
{
	if (depth)
		allocate(depth - 1);
	else
		block = malloc(100);
	__asm__ volatile("" ::: "memory");
}

static void coroutine(void)
{
	allocate(5);
	change_stack(&coroutine_sp, thread_sp);
	speak_fail("a coroutine that has ended goes on");
}

/* Runs coroutine() on `stack`, where its outermost return address is 0. */
static void run_on(char *stack)
{
	unsigned long *sp = (unsigned long *)(stack + STACK_BYTES) - 3;
	*sp = 0;
	*--sp = (unsigned long)coroutine;
	for (unsigned i = 0; i < 6; i++)
		*--sp = 0;
	change_stack(&thread_sp, (unsigned long)sp);
	free(block);
}

static void *work_within(void *ignored)
{
	char array[WITHIN * STACK_BYTES];
	char *lower = array + (-(unsigned long)array & 0xfff), *upper = lower + STACK_BYTES;
	while (!stopping) {
		run_on(upper);
		if (mprotect(upper, STACK_BYTES, PROT_NONE))
			speak_fail("cannot protect");
		run_on(lower);
		if (mprotect(upper, STACK_BYTES, PROT_READ | PROT_WRITE))
			speak_fail("cannot unprotect");
		rounds++;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return ignored;
}

static void use_array(void)
{
	char array[ARRAY_BYTES];
	__asm__ volatile("" ::"r"(array) : "memory");
	allocate(3);
	free(block);
}

static void protect_array(void)
{
	char array[2 * ARRAY_BYTES];
	char *first = array + (-(unsigned long)array & 0xfff);
	if (mprotect(first, 2 * ARRAY_BYTES - 0x1000, PROT_NONE))
		speak_fail("cannot protect");
	allocate(3);
	free(block);
	if (mprotect(first, 2 * ARRAY_BYTES - 0x1000, PROT_READ | PROT_WRITE))
		speak_fail("cannot unprotect");
}

static void *work_by_array(void *ignored)
{
	void (*volatile function[])(void) = {use_array, protect_array};
	for (unsigned i = 0; !stopping; i++) {
		function[i % 2]();
		rounds += i % 2;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return ignored;
}

static void *work(void *ignored)
{
	char *upper = pool + UPPER * STACK_BYTES;
	while (!stopping) {
		allocate(3);
		free(block);
		run_on(upper);
		if (munmap(upper, STACK_BYTES))
			speak_fail("cannot unmap");
		run_on(pool + LOWER * STACK_BYTES);
		if (mmap(upper, STACK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != upper)
			speak_fail("cannot map");
		rounds++;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return ignored;
}

int main(int argc, char **argv)
{
	const char *where = argc > 1 ? argv[1] : "";
	void *(*body)(void *) = !strcmp(where, "within")  ? work_within
				: !strcmp(where, "array") ? work_by_array
							  : work;
	pthread_attr_t attr;
	pthread_t thread;
	pool = mmap(NULL, STACKS * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	if (pool == MAP_FAILED || pthread_attr_init(&attr) ||
		pthread_attr_setstack(
			&attr, pool + OWN * STACK_BYTES, (STACKS - OWN) * STACK_BYTES) ||
		pthread_create(&thread, &attr, body, NULL))
		speak_fail("cannot start");
	speak_ready();
	while (strcmp(speak_hear(), "stop")) {
		speak_add("{\"rounds\":%lu}", rounds);
		speak_send();
	}
	stopping = true;
	pthread_join(thread, NULL);
	return 0;
}
