/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread is stopped by its own signal handler at a given step of its way through a hooked malloc.
 * Commands:
 *
 *      park pad|thunk|bridge   a thread sleeps there: at the target of the function's first
 *                              instruction, two instructions later, or at the displaced first
 *                              instruction
 *      release                 the thread goes on; answers when it has ended
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "tests/targets/speak.h"

#define TRAP_FLAG  0x100
#define AREA_BYTES 0x40000 /* size of the mappings that hold pads and bridges */

enum place { PAD, THUNK, BRIDGE };

static enum place wanted;
static unsigned steps; /* 1: at malloc's entry; counts instructions from there; 0: not there yet */
static unsigned long area[8];
static unsigned area_count;
static atomic_int parked, released;

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void find_areas(void)
{
	static char text[60000];
	unsigned long lo, hi;
	speak_read("/proc/self/maps", text, sizeof(text));
	area_count = 0;
	for (char *line = strtok(text, "\n"); line && area_count < 8; line = strtok(NULL, "\n"))
		if (strstr(line, "heaptap") && sscanf(line, "%lx-%lx", &lo, &hi) == 2 &&
			hi - lo == AREA_BYTES)
			area[area_count++] = lo;
}

static int is_in_area(unsigned long pc)
{
	for (unsigned i = 0; i < area_count; i++)
		if (pc - area[i] < AREA_BYTES)
			return 1;
	return 0;
}

static int is_there(uintptr_t pc)
{
	if (pc == (uintptr_t)malloc)
		steps = 1;
	else if (steps)
		steps++;
	if (wanted == BRIDGE)
		return steps > 4 && is_in_area(pc);
	return steps == (wanted == PAD ? 2 : 4);
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;
	(void)sig;
	(void)info;
	if (!is_there((uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP]))
		return;
	interrupted->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	atomic_store(&parked, 1);
	while (!atomic_load(&released))
		nap();
}

static void *go_through(void *arg)
{
	(void)arg;
	steps = 0;
	__asm__ volatile("pushf\n orq $0x100, (%%rsp)\n popf" ::: "memory", "cc");
	void *volatile block = malloc(100);
	__asm__ volatile("pushf\n andq $~0x100, (%%rsp)\n popf" ::: "memory", "cc");
	free(block);
	return NULL;
}

static pthread_t thread;

static void park(const char *where)
{
	wanted = !strcmp(where, "pad") ? PAD : !strcmp(where, "thunk") ? THUNK : BRIDGE;
	find_areas();
	atomic_store(&parked, 0);
	atomic_store(&released, 0);
	pthread_create(&thread, NULL, go_through, NULL);
	while (!atomic_load(&parked))
		nap();
	speak_add("parked");
}

static void release(void)
{
	atomic_store(&released, 1);
	pthread_join(thread, NULL);
	speak_add("released");
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	sigaction(SIGTRAP, &action, NULL);
	free(calloc(1, 8));
	free(realloc(NULL, 8));
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		free(malloc(10));
		if (!strncmp(command, "park ", 5))
			park(command + 5);
		else if (!strcmp(command, "release"))
			release();
		speak_send();
	}
	_exit(0);
}
