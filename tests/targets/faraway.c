/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled for the large code model: the code adds a 64-bit number to its own address, which gives
 * the GOT, and another to that, which gives a slot; no instruction refers to a slot relative to
 * rip. A thread runs a loop that frees a block each time, with free's address in a register since
 * before the loop. Between the turns of the loop it spins, or, with -s, sleeps. "restart" makes the
 * thread leave the loop and enter it again, "turn" lets the loop turn once; both answer with the
 * turns so far.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "tests/targets/speak.h"

static atomic_uint generation, turns;
static atomic_bool turn;
static int gate[2];
static void *volatile block;

__attribute__((noinline)) static void compute(unsigned mine)
{
	while (atomic_load(&generation) == mine) {
		while (!atomic_load(&turn))
			;
		atomic_store(&turn, 0);
		free(block);
		block = NULL;
		atomic_fetch_add(&turns, 1);
	}
}

__attribute__((noinline)) static void sleep_now_and_then(unsigned mine)
{
	char byte;
	while (atomic_load(&generation) == mine) {
		if (read(gate[0], &byte, 1) != 1)
			speak_fail("a gate that does not open");
		free(block);
		block = NULL;
		atomic_fetch_add(&turns, 1);
	}
}

static void *run(void *loop)
{
	for (;;)
		((void (*)(unsigned))loop)(atomic_load(&generation));
	return NULL;
}

static void go_round(void)
{
	unsigned before = atomic_load(&turns);
	block = malloc(100);
	atomic_store(&turn, 1);
	if (write(gate[1], "", 1) != 1)
		speak_fail("no gate");
	while (atomic_load(&turns) == before)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	bool sleeps = argc > 1 && !strcmp(argv[1], "-s");
	if (pipe(gate) || pthread_create(&thread, NULL, run,
				  sleeps ? (void *)sleep_now_and_then : (void *)compute))
		speak_fail("no thread");
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "restart"))
			atomic_fetch_add(&generation, 1);
		if (!strcmp(command, "restart") || !strcmp(command, "turn"))
			go_round();
		speak_add("%u", atomic_load(&turns));
		speak_send();
	}
	_exit(0);
}
