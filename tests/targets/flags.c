/* SPDX-License-Identifier: Apache-2.0
 *
 * Flags of the processor that hardly any program sets:
 *
 *      flags steps     the main thread single-steps itself and waits in a call; another thread
 *                      answers commands
 *      flags copies    "work" makes 4,000 calls: half of them with alignment checks (AC), half
 *                      with the direction flag (DF)
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/targets/speak.h"

#define STEP_FLAG  0x100u   /* TF */
#define DOWN_FLAG  0x400u   /* DF */
#define ALIGN_FLAG 0x40000u /* AC */
#define ROUNDS	   1000

/* Only malloc and free run with the flag: the C library's copying functions fail with either. */
static void allocate_with(unsigned flag)
{
	static void *volatile block; /* or the compiler leaves the calls out */
	uint64_t before = __builtin_ia32_readeflags_u64();
	__builtin_ia32_writeeflags_u64(before | flag);
	for (int i = 0; i < ROUNDS; i++) {
		block = malloc(100);
		free(block);
	}
	__builtin_ia32_writeeflags_u64(before);
}

static int be_copying(void)
{
	allocate_with(0); /* the allocator gets its memory before a flag is set */
	speak_ready();
	while (!strcmp(speak_hear(), "work")) {
		allocate_with(ALIGN_FLAG);
		allocate_with(DOWN_FLAG);
		speak_add("worked");
		speak_send();
	}
	_exit(0);
}

static void pass(int sig)
{
	(void)sig;
}

static void *serve(void *arg)
{
	while (strcmp(speak_hear(), "stop"))
		free(malloc(100));
	_exit(arg != NULL);
}

static int be_stepping(void)
{
	pthread_t thread;
	int fd[2];
	char byte;
	if (pipe(fd) || pthread_create(&thread, NULL, serve, NULL))
		speak_fail("pthread_create: errno %d", errno);
	signal(SIGTRAP, pass);
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | STEP_FLAG);
	speak_ready();
	while (read(fd[0], &byte, 1) < 0)
		;
	return 1;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "steps"))
		return be_stepping();
	if (!strcmp(mode, "copies"))
		return be_copying();
	speak_fail("usage: flags steps | copies");
}
