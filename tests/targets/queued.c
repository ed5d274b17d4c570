/* SPDX-License-Identifier: Apache-2.0
 *
 * Coroutines of one thread that take a block from a pool, and wait in pool_get, each on its own
 * stack, until there is one. "wait" starts them; "serve N" gives the pool a block for each of the
 * next N coroutines, and answers how many have had one so far.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/targets/speak.h"

#define COROUTINES  20
#define STACK_BYTES 65536ul

static struct coroutine {
	ucontext_t context;
	void *block;
} coroutine[COROUTINES], *running;

static ucontext_t scheduler;
static void *spare;

/* Both functions make calls into other modules, so that callers keep no values in caller-saved
 * registers (-fipa-ra). */
__attribute__((noinline)) void *pool_get(size_t size)
{
	(void)size;
	while (!spare)
		swapcontext(&running->context, &scheduler);
	void *block = spare;
	spare = NULL;
	return block;
}

__attribute__((noinline)) void pool_put(void *block)
{
	if (getppid() >= 0)
		spare = block;
}

static void use_one(void)
{
	running->block = pool_get(100);
	swapcontext(&running->context, &scheduler);
	speak_fail("a coroutine that is done goes on");
}

static void go_on(struct coroutine *with)
{
	running = with;
	swapcontext(&scheduler, &with->context);
}

static void start(struct coroutine *it)
{
	void *stack =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED || getcontext(&it->context))
		speak_fail("no coroutine");
	it->context.uc_stack = (stack_t){.ss_sp = stack, .ss_size = STACK_BYTES};
	makecontext(&it->context, use_one, 0);
	go_on(it);
}

static unsigned serve(unsigned long count)
{
	static unsigned served;
	for (; count && served < COROUTINES; count--, served++) {
		pool_put(malloc(100));
		go_on(&coroutine[served]);
		if (!coroutine[served].block)
			speak_fail("coroutine %u has no block", served);
	}
	return served;
}

int main(void)
{
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "wait"))
			for (unsigned i = 0; i < COROUTINES; i++)
				start(&coroutine[i]);
		else if (!strncmp(command, "serve ", 6))
			speak_add("%u", serve(strtoul(command + 6, NULL, 10)));
		speak_send();
	}
	_exit(0);
}
