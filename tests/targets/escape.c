/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes addresses of allocator functions out of its GOT and keeps them, so that addresses of a
 * profiler's hooks are in places that the profiler cannot restore. Commands:
 *
 *      copy     copies a table of malloc and free, which is in memory protected by RELRO, into the
 *               heap; use heap calls through this copy
 *      atexit   lets the C library keep free, to be called at the end
 *      take     reads &malloc and &free into static, heap and stack memory, and makes a thread
 *               destructor of free
 *      use      calls through all of these, and ends a thread that has a value to destroy
 *      pack     takes both into a packed structure in the heap
 *      use packed, unpack   calls through it; overwrites it
 *      freeze   copies both into a page and makes that page read-only
 *      use frozen, thaw     calls through this copy; overwrites it
 *      reserve  maps a gigabyte of shared memory and leaves it alone
 *      lock     locks all memory, present and future
 *      branch   makes a child, which keeps its copies and waits for the end of this process
 *      forget   overwrites all copies, the destructor included
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/targets/speak.h"

typedef void *malloc_fn(size_t size);
typedef void free_fn(void *ptr);

struct pair {
	malloc_fn *take;
	free_fn *give;
};

struct __attribute__((packed)) packed {
	char tag;
	struct pair pair;
};

static struct packed volatile *packed;
static struct pair volatile kept;
static const struct pair table = {malloc, free};
static struct pair volatile *on_heap;
static struct pair *frozen;
static pthread_key_t key;
static int has_key;

/* Replaces the key: a deleted key leaves its destructor in glibc's table until the entry is used
 * again. */
static void make_key(free_fn *destructor)
{
	if (has_key)
		pthread_key_delete(key);
	has_key = 1;
	if (pthread_key_create(&key, destructor))
		speak_fail("no key");
}

static void *run_with_value(void *arg)
{
	(void)arg;
	pthread_setspecific(key, malloc(300));
	return NULL;
}

static void use_pair(struct pair pair)
{
	for (unsigned i = 0; i < 1000; i++) {
		unsigned char *ptr = pair.take(i + 1);
		if (!ptr)
			speak_fail("malloc through a kept pointer failed");
		ptr[i] = 1;
		pair.give(ptr);
	}
}

static void answer(const char *text)
{
	speak_add("%s", text);
	speak_send();
}

static void protect_frozen(int prot)
{
	if (frozen == MAP_FAILED || mprotect(frozen, sizeof(*frozen), prot))
		speak_fail("no page");
}

/* Not in main, which might load both from the GOT before its loop. */
static __attribute__((noinline)) void freeze(void)
{
	if (!frozen)
		frozen = mmap(NULL, sizeof(*frozen), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	protect_frozen(PROT_READ | PROT_WRITE);
	memcpy(frozen, &table, sizeof(table));
	protect_frozen(PROT_READ);
}

static __attribute__((noinline)) void pack(void)
{
	packed->pair.take = malloc;
	packed->pair.give = free;
}

static void thaw(void)
{
	protect_frozen(PROT_READ | PROT_WRITE);
	*frozen = (struct pair){NULL, NULL};
}

static void branch(void)
{
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		speak_fail("no child");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
}

int main(void)
{
	struct pair volatile on_stack = {0};
	on_heap = malloc(sizeof(*on_heap));
	packed = malloc(sizeof(*packed));
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "take")) {
			kept.take = on_heap->take = on_stack.take = malloc;
			kept.give = on_heap->give = on_stack.give = free;
			make_key(free);
			answer("taken");
		} else if (!strcmp(command, "copy")) {
			memcpy((void *)on_heap, (const void *)&table, sizeof(table));
			answer("copied");
		} else if (!strcmp(command, "branch")) {
			branch();
			answer("branched");
		} else if (!strcmp(command, "atexit")) {
			/* The first argument will be the exit status 0: free(NULL). */
			on_exit((void (*)(int, void *))(void *)free, NULL);
			answer("registered");
		} else if (!strcmp(command, "pack")) {
			pack();
			answer("packed");
		} else if (!strcmp(command, "use packed")) {
			use_pair(packed->pair);
			answer("used");
		} else if (!strcmp(command, "unpack")) {
			packed->pair = (struct pair){NULL, NULL};
			answer("unpacked");
		} else if (!strcmp(command, "freeze")) {
			freeze();
			answer("frozen");
		} else if (!strcmp(command, "use frozen")) {
			use_pair(*frozen);
			answer("used");
		} else if (!strcmp(command, "thaw")) {
			thaw();
			answer("thawed");
		} else if (!strcmp(command, "use heap")) {
			use_pair(*on_heap);
			answer("used");
		} else if (!strcmp(command, "use")) {
			use_pair(kept);
			use_pair(*on_heap);
			use_pair(on_stack);
			pthread_t thread;
			if (pthread_create(&thread, NULL, run_with_value, NULL) ||
				pthread_join(thread, NULL))
				speak_fail("no thread");
			answer("used");
		} else if (!strcmp(command, "reserve")) {
			if (mmap(NULL, 1ul << 30, PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
				speak_fail("no gigabyte");
			answer("reserved");
		} else if (!strcmp(command, "lock")) {
			answer(mlockall(MCL_CURRENT | MCL_FUTURE) ? "refused" : "locked");
		} else if (!strcmp(command, "forget")) {
			kept.take = on_heap->take = on_stack.take = NULL;
			kept.give = on_heap->give = on_stack.give = NULL;
			make_key(NULL);
			answer("forgotten");
		}
	}
	exit(0);
}
