/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds memory in several arenas of an allocator, with holes, and knows how much: by its own
 * counts, and by the allocator's counters. The allocator is glibc's malloc; or jemalloc's,
 * preloaded, or linked in with the prefix PREFIX; or mimalloc's, preloaded, or loaded for these
 * blocks alone, from LIBRARY; or tcmalloc's, preloaded or linked in.
 *
 *      holder [-t THREADS] [-n BLOCKS] [-r ROOT: the directory that it makes its root]
 *      books           answers {"held":B,"cached":B,"used":B,"mapped":B,"system":B}, in bytes: live
 *                      blocks, with headers; freed blocks that glibc caches for the threads; the
 *                      rest by mallinfo2. With jemalloc {"held":B,"used":B,"cached":B}, with
 *                      tcmalloc {"held":B,"used":B}: all but held by the allocator's counters.
 *                      With mimalloc {"held":B}
 *      grow N, shrink N    the first thread allocates, or frees, N blocks
 *      pass N          the main thread frees N of the first thread's blocks
 *      huge N          takes a block of N bytes
 *      end             the first thread ends; its blocks remain
 *      churn, rest     all threads but the main thread allocate and free from now on; they stop
 *      leak, rest      all threads but the main thread allocate, some MB a second, and free nothing
 *      scribble        overwrites its first arena again and again, and says "scribbling"
 *      scribble-map    overwrites what jemalloc knows of its extents, again and again; likewise
 *      scribble-pages  what mimalloc knows of its pages
 */
#include <dlfcn.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "tests/targets/speak.h"

#ifdef PREFIX
#define NAME_OF(prefix, name) prefix##name
#define NAME_BY(prefix, name) NAME_OF(prefix, name)
#define NAME(name)	      NAME_BY(PREFIX, name)
void *NAME(malloc)(size_t bytes);
void NAME(free)(void *block);
size_t NAME(malloc_usable_size)(void *block);
#define malloc		   NAME(malloc)
#define free		   NAME(free)
#define malloc_usable_size NAME(malloc_usable_size)
#define mallctl		   NAME(mallctl)
#endif
#ifdef LIBRARY
static void *volatile other; /* a block of the C library's malloc */
static void other_take(void)
{
	other = malloc(100);
}
static void *(*library_malloc)(size_t bytes);
static void (*library_free)(void *block);
static size_t (*library_usable)(void *block);
#define malloc		   library_malloc
#define free		   library_free
#define malloc_usable_size library_usable
#endif
extern int mi_version(void) __attribute__((weak));
extern int MallocExtension_GetNumericProperty(const char *name, size_t *value)
	__attribute__((weak));
/* jemalloc's map of extents: a head, and a word for each GiB. */
extern char je_arena_emap_global[] __attribute__((weak));
#define MAP_HEAD_BYTES 256u
#define MAP_BYTES      (1u << 20)
extern int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes)
	__attribute__((weak));

#define THREADS_MAX  16
#define BLOCKS_MAX   100000
#define CLASSES	     64 /* size classes that glibc caches for a thread, and blocks of each */
#define CACHED_EACH  7
#define ORDER_END    INT_MIN
#define LEAK_BYTES   700
#define LARGE_BYTES  (300u << 10) /* size of a block with its own mapping */
#define HEADER_BYTES 8

static struct holder {
	pthread_t thread;
	int index;
	char *block[BLOCKS_MAX];
	size_t count;
	size_t freed[CLASSES];
	_Atomic int order; /* blocks to allocate, or, negative, to free; 0: done */
} holders[THREADS_MAX];

static int thread_count = 3, block_count = 4000;
static atomic_bool churning, leaking, is_up[THREADS_MAX];

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* Mostly small blocks, some too large for a bin of one size, a few with their own mapping. */
static size_t any_size(uint64_t *state)
{
	uint64_t kind = next_random(state) % 1000;
	if (kind < 2)
		return LARGE_BYTES + next_random(state) % LARGE_BYTES;
	return 1 + next_random(state) % (kind < 100 ? 20000 : 1500);
}

static void give_back(struct holder *holder, size_t index)
{
	char *block = holder->block[index];
	size_t class = (malloc_usable_size(block) + HEADER_BYTES) / 16 - 2;
	if (class < CLASSES)
		holder->freed[class]++;
	holder->block[index] = NULL;
	free(block);
}

static void take(struct holder *holder, int count, uint64_t *state)
{
	for (int i = 0; i < count && holder->count < BLOCKS_MAX; i++) {
		size_t size = any_size(state);
		holder->block[holder->count] = malloc(size);
		if (!holder->block[holder->count])
			speak_fail("no memory");
		memset(holder->block[holder->count++], 1, size);
	}
}

static void churn(uint64_t *state)
{
	char *block[64] = {NULL};
	while (atomic_load(&churning)) {
		char **any = &block[next_random(state) % 64];
		free(*any);
		*any = malloc(any_size(state) % LARGE_BYTES);
	}
	for (int i = 0; i < 64; i++)
		free(block[i]);
}

static void leak(void)
{
	const struct timespec pause = {.tv_nsec = 100000};
	while (atomic_load(&leaking)) {
		for (int i = 0; i < 8; i++) {
			char *block = malloc(LEAK_BYTES);
			if (!block)
				speak_fail("no memory");
			memset(block, 1, LEAK_BYTES);
		}
		nanosleep(&pause, NULL);
	}
}

static void follow(struct holder *holder, int order, uint64_t *state)
{
	if (order > 0)
		take(holder, order, state);
	for (size_t i = 0; i < holder->count && order < 0; i++) {
		if (!holder->block[i])
			continue;
		give_back(holder, i);
		order++;
	}
	atomic_store(&holder->order, 0);
}

static void *hold(void *context)
{
	struct holder *holder = context;
	uint64_t state = (uint64_t)holder->index + 1;
	const struct timespec pause = {.tv_nsec = 1000000};
	take(holder, block_count, &state);
	for (size_t i = 0; i < holder->count; i += 3)
		give_back(holder, i);
	atomic_store(&is_up[holder->index], true);
	for (;;) {
		int order = atomic_load(&holder->order);
		if (order == ORDER_END)
			return NULL;
		if (order)
			follow(holder, order, &state);
		if (atomic_load(&churning))
			churn(&state);
		leak();
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static bool is_mimalloc(void)
{
#ifdef LIBRARY
	return true;
#else
	return mi_version != NULL;
#endif
}

/* Reads a counter of jemalloc. Arena 4096 stands for all arenas together. */
static uint64_t counter(const char *name)
{
	uint64_t value = 1;
	size_t bytes = sizeof(value);
	if (mallctl("epoch", NULL, NULL, &value, bytes) || mallctl(name, &value, &bytes, NULL, 0))
		speak_fail("no counter");
	return value;
}

/* All blocks are allocated before the first is freed, so glibc caches the first seven freed ones of
 * each size. */
static void tell_books(void)
{
	uint64_t held = 0, cached = 0;
	for (int t = 0; t < thread_count; t++) {
		struct holder *holder = &holders[t];
		for (size_t i = 0; i < holder->count; i++) {
			size_t usable = holder->block[i] ? malloc_usable_size(holder->block[i]) : 0;
			bool headed = usable && !mallctl && !is_mimalloc() &&
				      !MallocExtension_GetNumericProperty;
			held += usable + (headed ? HEADER_BYTES : 0);
		}
		for (size_t class = 0; class < CLASSES; class ++) {
			size_t count = holder->freed[class];
			cached += (count < CACHED_EACH ? count : CACHED_EACH) * (class + 2) * 16;
		}
	}
	if (MallocExtension_GetNumericProperty) {
		size_t used = 0;
		(void)MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &used);
		speak_add("{\"held\":%lu,\"used\":%zu}", held, used);
		speak_send();
		return;
	}
	if (is_mimalloc()) {
		speak_add("{\"held\":%lu}", held);
		speak_send();
		return;
	}
	if (mallctl) {
		speak_add("{\"held\":%lu,\"used\":%lu,\"cached\":%lu}", held,
			counter("stats.allocated"), counter("stats.arenas.4096.tcache_bytes"));
		speak_send();
		return;
	}
	struct mallinfo2 info = mallinfo2();
	speak_add("{\"held\":%lu,\"cached\":%lu,\"used\":%zu,\"mapped\":%zu,\"system\":%zu}", held,
		cached, info.uordblks, info.hblkhd, info.arena);
	speak_send();
}

static void say_done(void)
{
	speak_add("done");
	speak_send();
}

static void order_one(const char *command, int sign)
{
	struct holder *holder = &holders[0];
	atomic_store(&holder->order, sign * atoi(strchr(command, ' ') + 1));
	while (atomic_load(&holder->order))
		usleep(1000);
	say_done();
}

/* This thread frees blocks of another thread, which waits. */
static void pass(int count)
{
	struct holder *holder = &holders[0];
	for (size_t i = 0; i < holder->count && count; i++) {
		if (!holder->block[i])
			continue;
		give_back(holder, i);
		count--;
	}
	say_done();
}

static void take_huge(size_t bytes)
{
	struct holder *holder = &holders[0];
	char *block = holder->count < BLOCKS_MAX ? malloc(bytes) : NULL;
	if (!block)
		speak_fail("no memory");
	holder->block[holder->count++] = block;
	say_done();
}

static void end_thread(void)
{
	atomic_store(&holders[0].order, ORDER_END);
	pthread_join(holders[0].thread, NULL);
	say_done();
}

static void begin_leak(void)
{
	atomic_store(&leaking, true);
	speak_add("leaking");
	speak_send();
}

static void set_churning(bool on)
{
	atomic_store(&churning, on);
	atomic_store(&leaking, false);
	speak_add("%s", on ? "churning" : "resting");
	speak_send();
}

/* Follows a freed chunk's pointer to its bin in the arena, and overwrites the arena there. No
 * thread may call malloc from then on. */
static void scribble(void)
{
	char *a = malloc(5000), *guard = malloc(16), *b = malloc(5000);
	if (!a || !guard || !b)
		speak_fail("no memory");
	free(a);
	uintptr_t bin = ((uintptr_t *)(void *)a)[1];
	speak_add("scribbling");
	speak_send();
	for (uint64_t state = 1;;)
		for (uintptr_t *word = (uintptr_t *)bin; word < (uintptr_t *)bin + 200; word++)
			*word = next_random(&state) % 2 ? (uintptr_t)a : next_random(&state);
}

/* Overwrites words in the root of jemalloc's map: with addresses near the original ones, or with
 * random numbers. */
static void scribble_map(void)
{
	uintptr_t *word = (uintptr_t *)(void *)je_arena_emap_global, *used[64], led_to[64];
	size_t count = 0;
	if (!word)
		speak_fail("no map");
	for (size_t i = MAP_HEAD_BYTES / sizeof(*word); i < MAP_BYTES / sizeof(*word); i++)
		if (word[i] && count < 64) {
			used[count] = &word[i];
			led_to[count++] = word[i];
		}
	if (!count)
		speak_fail("an empty map");
	speak_add("scribbling");
	speak_send();
	for (uint64_t state = 1;;) {
		size_t any = next_random(&state) % count;
		uint64_t by = 64 * (1 + next_random(&state) % 1000);
		*used[any] = next_random(&state) % 2 ? next_random(&state) : led_to[any] + by;
	}
}

/* Overwrites mimalloc's page descriptions of a segment, which begins at a multiple of 32 MiB.
 * Leaves the first description, that of the segment itself. */
static void scribble_pages(void)
{
	uintptr_t block = 0;
	for (size_t i = 0; i < holders[0].count && !block; i++)
		block = (uintptr_t)holders[0].block[i];
	if (!block)
		speak_fail("no block");
	uintptr_t *word = (uintptr_t *)((block - 1) & ~(uintptr_t)0x1ffffff);
	for (uint64_t state = 1, round = 0;; round++) {
		for (size_t i = 33 + 10; i < 33 + 10 * 100; i++)
			word[i] = next_random(&state) % 2 ? word[i + 1] : next_random(&state);
		if (round)
			continue;
		speak_add("scribbling");
		speak_send();
	}
}

static void library_load(void)
{
#ifdef LIBRARY
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		speak_fail("no library");
	library_malloc = dlsym(library, "mi_malloc");
	library_free = dlsym(library, "mi_free");
	library_usable = dlsym(library, "mi_usable_size");
	if (!library_malloc || !library_free || !library_usable)
		speak_fail("no such library");
	other_take();
#endif
}

static void start(void)
{
	for (int i = 0; i < thread_count; i++) {
		holders[i].index = i;
		if (pthread_create(&holders[i].thread, NULL, hold, &holders[i]))
			speak_fail("no thread");
	}
	for (int i = 0; i < thread_count; i++)
		while (!atomic_load(&is_up[i]))
			usleep(1000);
}

int main(int argc, char **argv)
{
	const char *root = NULL;
	for (int option; (option = getopt(argc, argv, "t:n:r:")) != -1;) {
		if (option == 't')
			thread_count = atoi(optarg);
		else if (option == 'r')
			root = optarg;
		else
			block_count = atoi(optarg);
	}
	if (thread_count < 1 || thread_count > THREADS_MAX || block_count > BLOCKS_MAX)
		speak_fail("wrong arguments");
	library_load();
	start();
	if (root && (chroot(root) || chdir("/")))
		speak_fail("cannot change the root directory");
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "books"))
			tell_books();
		else if (!strncmp(command, "grow ", 5))
			order_one(command, 1);
		else if (!strncmp(command, "shrink ", 7))
			order_one(command, -1);
		else if (!strncmp(command, "pass ", 5))
			pass(atoi(command + 5));
		else if (!strncmp(command, "huge ", 5))
			take_huge(strtoull(command + 5, NULL, 10));
		else if (!strcmp(command, "end"))
			end_thread();
		else if (!strcmp(command, "churn") || !strcmp(command, "rest"))
			set_churning(command[0] == 'c');
		else if (!strcmp(command, "leak"))
			begin_leak();
		else if (!strcmp(command, "scribble"))
			scribble();
		else if (!strcmp(command, "scribble-map"))
			scribble_map();
		else if (!strcmp(command, "scribble-pages"))
			scribble_pages();
	}
	return 0;
}
