/* SPDX-License-Identifier: Apache-2.0
 *
 * Four threads load and unload the libraries that its arguments name, at random, with and without
 * lazy binding, and map memory full of a pattern where a library was; that pattern must not change.
 * "storm" begins, "calm" ends it, "count" answers how often a library was loaded; "hold" maps
 * a pattern over every place where a library ever lay, and keeps it there until the end.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/targets/speak.h"

#define THREADS	   4
#define PAGE	   4096ul
#define SPAN	   (6 * PAGE) /* about the size of a library */
#define PLACES_MAX 256

static char **library;
static unsigned libraries;
static atomic_bool blowing, over;
static atomic_uint started, busy;
static atomic_ulong loads;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t place[PLACES_MAX]; /* where libraries were loaded */
static unsigned places;
static uint64_t *held[PLACES_MAX];
static unsigned held_count;

/* The address of an allocator function, which makes the memory look like GOT slots. */
static uint64_t pattern(void)
{
	return (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "free");
}

static uint64_t *pattern_make(uintptr_t at)
{
	uint64_t *words = mmap((void *)at, SPAN, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (words == MAP_FAILED)
		return NULL;
	for (size_t i = 0; i < SPAN / sizeof(*words); i++)
		words[i] = pattern();
	return words;
}

static void pattern_check(const uint64_t *words)
{
	for (size_t i = 0; i < SPAN / sizeof(*words); i++)
		if (words[i] != pattern())
			speak_fail("%p holds %lx: not ours to change", (void *)&words[i], words[i]);
}

static void remember(uintptr_t at)
{
	pthread_mutex_lock(&lock);
	bool known = false;
	for (unsigned i = 0; i < places && !known; i++)
		known = place[i] == at;
	if (!known && places < PLACES_MAX)
		place[places++] = at;
	pthread_mutex_unlock(&lock);
}

static void load_once(unsigned *seed)
{
	const char *path = library[(unsigned)rand_r(seed) % libraries];
	int how = rand_r(seed) % 2 ? RTLD_LAZY : RTLD_NOW;
	void *handle = dlopen(path, how | RTLD_LOCAL);
	struct link_map *map;
	if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map))
		speak_fail("%s", dlerror());
	uintptr_t at = map->l_addr;
	remember(at);
	long (*work)(unsigned long);
	*(void **)&work = dlsym(handle, "burst_work");
	if (work(20) != 60)
		speak_fail("a library counts wrong");
	if (dlclose(handle))
		speak_fail("%s", dlerror());
	atomic_fetch_add(&loads, 1);
	if (rand_r(seed) % 4)
		return;
	/* MAP_FIXED_NOREPLACE fails if another thread still has the library, or has loaded one
	 * there. */
	uint64_t *words = pattern_make(at);
	if (!words)
		return;
	sched_yield();
	pattern_check(words);
	munmap(words, SPAN);
}

static void *blow(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	atomic_fetch_add(&started, 1);
	while (!atomic_load(&over)) {
		atomic_fetch_add(&busy, 1);
		bool active = atomic_load(&blowing);
		if (active)
			load_once(&seed);
		atomic_fetch_sub(&busy, 1);
		if (!active)
			usleep(1000);
	}
	return NULL;
}

static void calm(void)
{
	atomic_store(&blowing, false);
	while (atomic_load(&busy))
		sched_yield();
}

static void hold(void)
{
	for (unsigned i = 0; i < places; i++) {
		uint64_t *words = pattern_make(place[i]);
		if (words)
			held[held_count++] = words;
	}
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];
	library = argv + 1;
	libraries = (unsigned)argc - 1;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, blow, (void *)(i + 1));
	while (atomic_load(&started) < THREADS)
		sched_yield();
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "storm"))
			atomic_store(&blowing, true);
		else if (!strcmp(command, "calm"))
			calm();
		else if (!strcmp(command, "hold"))
			hold();
		else if (strcmp(command, "count"))
			speak_fail("no command %s", command);
		speak_add("%lu", atomic_load(&loads));
		speak_send();
	}
	atomic_store(&over, true);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < held_count; i++)
		pattern_check(held[i]);
	_exit(0);
}
