/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursions of thousands of levels, down and up again, in functions that call each other at
 * random, with its own record of the stack. Commands:
 *
 *      thread STACK_MIB    makes a thread with a stack of that size (0: takes the main thread),
 *                          which allocates and frees one block; answers with its TID
 *      go LEVELS           recurses in that thread, which ends then unless it is the main thread;
 *                          answers with the number of blocks
 *      save PATH           writes the record, words of 8 bytes: the number of levels, for each
 *                          level the return address of its function, for each block its level
 *
 * The block of number n has SIZE_LO + n bytes. Levels are counted from 1.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/targets/speak.h"

#define SIZE_LO	   5000u
#define LEVELS_MAX 60000u
#define BLOCKS_MAX (2u * LEVELS_MAX)

static uint64_t levels, address[LEVELS_MAX + 1];
static uint64_t blocks, block_level[BLOCKS_MAX];
static uint64_t random_state = 88172645463325252ull;

static unsigned choose(unsigned below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)(random_state % below);
}

typedef void level_fn(uint64_t level);
static level_fn small, saved, large, pointed;
static level_fn *const volatile function[] = {small, saved, large, pointed};

/* Some allocate on the way down, some on the way up, most not. */
__attribute__((always_inline)) static inline void allocate(uint64_t level, unsigned one_in)
{
	if (choose(one_in) != 0 || blocks == BLOCKS_MAX)
		return;
	block_level[blocks] = level;
	free(malloc(SIZE_LO + blocks++));
}

__attribute__((always_inline)) static inline void go_on(uint64_t level, const void *from)
{
	address[level] = (uint64_t)from;
	unsigned one_in = level % 1000 < 5 || level + 5 > levels ? 1 : 40;
	allocate(level, one_in);
	if (level < levels)
		function[choose(4)](level + 1);
	allocate(level, one_in);
	__asm__ volatile("" ::: "memory");
}

#define LEVEL(name) __attribute__((noinline, noclone)) static void name(uint64_t level)

LEVEL(small)
{
	go_on(level, __builtin_return_address(0));
}

LEVEL(saved)
{
	uint64_t a = random_state, b = a * level, c = a ^ b, d = b + c;
	go_on(level, __builtin_return_address(0));
	if (b != a * level || c != (a ^ b) || d != b + c)
		speak_fail("registers overwritten");
}

LEVEL(large)
{
	volatile char room[40];
	room[0] = room[39] = (char)level;
	go_on(level, __builtin_return_address(0));
	if (room[0] != (char)level || room[39] != (char)level)
		speak_fail("frame overwritten");
}

/* alloca forces a frame pointer, whatever the compiler does for the others. */
LEVEL(pointed)
{
	volatile char *room = __builtin_alloca(16 + choose(16));
	room[0] = (char)level;
	go_on(level, __builtin_return_address(0));
	if (room[0] != (char)level)
		speak_fail("frame overwritten");
}

static sem_t is_there, may_go;
static pthread_t thread;
static pid_t thread_id;

static void *run(void *unused)
{
	free(malloc(1));
	thread_id = gettid();
	sem_post(&is_there);
	sem_wait(&may_go);
	function[0](1);
	return unused;
}

static void make_thread(unsigned long stack_mib)
{
	pthread_attr_t attr;
	if (pthread_attr_init(&attr) || pthread_attr_setstacksize(&attr, stack_mib << 20) ||
		pthread_create(&thread, &attr, run, NULL))
		speak_fail("no thread");
	sem_wait(&is_there);
}

static void begin(unsigned long stack_mib)
{
	thread_id = gettid();
	if (stack_mib)
		make_thread(stack_mib);
	else
		free(malloc(1));
	speak_add("thread %d", thread_id);
	speak_send();
}

static void go(unsigned long count)
{
	levels = count;
	blocks = 0;
	if (count > LEVELS_MAX)
		speak_fail("too many levels");
	sem_post(&may_go);
	if (thread_id == getpid())
		run(NULL);
	else if (pthread_join(thread, NULL))
		speak_fail("no thread");
	speak_add("done %lu", (unsigned long)blocks);
	speak_send();
}

static void put(int fd, const uint64_t *words, uint64_t count)
{
	const char *from = (const char *)words;
	for (uint64_t left = count * sizeof(*words); left > 0;) {
		ssize_t done = write(fd, from, left);
		if (done <= 0)
			speak_fail("write: errno %d", errno);
		from += done;
		left -= (uint64_t)done;
	}
}

static void save(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		speak_fail("cannot write %s", path);
	put(fd, &levels, 1);
	put(fd, address + 1, levels);
	put(fd, block_level, blocks);
	close(fd);
	speak_add("saved");
	speak_send();
}

static void *do_nothing(void *arg)
{
	return arg;
}

/* Grows the main thread's stack before a capture, which knows only the part that is mapped then. */
__attribute__((noinline)) static void grow_stack(void)
{
	volatile char room[6u << 20];
	for (size_t i = sizeof(room); i > 0; i -= 4096)
		room[i - 1] = 1;
}

int main(void)
{
	grow_stack();
	/* glibc installs its signal handlers with the first thread. */
	if (pthread_create(&thread, NULL, do_nothing, NULL) || pthread_join(thread, NULL))
		speak_fail("no thread");
	speak_ready();
	for (;;) {
		unsigned long count, stack_mib;
		char path[4096];
		const char *line = speak_hear();
		if (sscanf(line, "thread %lu", &stack_mib) == 1)
			begin(stack_mib);
		else if (sscanf(line, "go %lu", &count) == 1)
			go(count);
		else if (sscanf(line, "save %4095s", path) == 1)
			save(path);
		else
			return 0;
	}
}
