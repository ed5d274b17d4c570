/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts its calls of its own allocator (arenalloc.h) and of the C library's, like ledger.c. `go`
 * runs one phase of a seeded mix of calls in every thread; the answer is the counts, one JSON line.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/targets/arenalloc.h"
#include "tests/targets/freed.h"
#include "tests/targets/phases.h"
#include "tests/targets/random.h"
#include "tests/targets/speak.h"

/* The usable size of a block; 0 if the allocator has no function for it. */
#ifndef arena_usable
#define arena_usable(block) (0)
#else
size_t arena_usable(void *block);
#endif

#define THREADS	   2
#define TABLE	   64
#define OPERATIONS 20000

enum function { MALLOC, CALLOC, REALLOC, ALIGNED, POSIX_MEMALIGN, COUNT };

static const char *const function_name[COUNT] = {
	"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign"};

struct block {
	unsigned char *ptr; /* NULL: none */
	size_t size;
	unsigned phase;
};

static struct worker {
	pthread_t thread;
	pid_t tid;
	uint64_t seed;
	uint64_t calls[COUNT], bytes[COUNT];
	struct freed freed;
	int64_t live_blocks, live_bytes;
	struct block table[TABLE];
} worker[THREADS];

static void book_new(struct worker *self, enum function function, void *ptr, size_t size)
{
	if (!ptr || (uintptr_t)ptr % (size > 8 ? 16 : 8))
		speak_fail("%s(%zu) gave %p", function_name[function], size, ptr);
	self->calls[function]++;
	self->bytes[function] += size;
	self->live_blocks++;
	self->live_bytes += (int64_t)size;
}

static void book_gone(struct worker *self, size_t size, size_t usable, unsigned born)
{
	if (born != phase) {
		self->freed.before_frees++;
		self->freed.before_bytes += usable;
		return;
	}
	self->freed.frees++;
	self->freed.bytes += size;
	self->live_blocks--;
	self->live_bytes -= (int64_t)size;
}

static void keep(
	struct worker *self, enum function function, struct block *block, void *ptr, size_t size)
{
	book_new(self, function, ptr, size);
	*block = (struct block){ptr, size, phase};
	block->ptr[0] = block->ptr[size - 1] = (unsigned char)size;
}

static void acquire(struct worker *self, struct block *block, uint64_t random, size_t size)
{
	void *ptr = NULL;
	switch (random % 5) {
	case 0:
		ptr = arena_zeroed(1, size);
		keep(self, CALLOC, block, ptr, size);
		break;
	case 1:
		ptr = arena_resize(NULL, size);
		keep(self, REALLOC, block, ptr, size);
		break;
	case 2:
		ptr = arena_aligned(16, size);
		keep(self, ALIGNED, block, ptr, size);
		break;
	case 3:
		if (arena_place(&ptr, 16, size))
			ptr = NULL;
		keep(self, POSIX_MEMALIGN, block, ptr, size);
		break;
	default:
		ptr = arena_get(size);
		keep(self, MALLOC, block, ptr, size);
	}
}

static void check_contents(const struct block *block)
{
	if (block->ptr[0] != (unsigned char)block->size ||
		block->ptr[block->size - 1] != (unsigned char)block->size)
		speak_fail(
			"block %p of %zu bytes was overwritten", (void *)block->ptr, block->size);
}

static void give_back(struct worker *self, struct block *block, uint64_t random)
{
	check_contents(block);
	book_gone(self, block->size, arena_usable(block->ptr), block->phase);
	if (random % 2)
		arena_put(block->ptr);
	else
		arena_put_sized(block->ptr, block->size);
	block->ptr = NULL;
}

static void resize(struct worker *self, struct block *block, size_t size)
{
	book_gone(self, block->size, arena_usable(block->ptr), block->phase);
	keep(self, REALLOC, block, arena_resize(block->ptr, size), size);
}

/* Uses the C library's allocator, which is recorded as usual. */
static void use_other(struct worker *self, size_t size)
{
	void *volatile block = malloc(size);
	book_new(self, MALLOC, block, size);
	book_gone(self, size, 0, phase);
	free(block);
}

static void step(struct worker *self)
{
	uint64_t random = next_random(&self->seed);
	struct block *block = &self->table[random % TABLE];
	size_t size = 1 + (random >> 16 & 0x3ff);
	unsigned what = (random >> 8) % 8;
	random >>= 32;
	if (!what)
		use_other(self, size);
	else if (!block->ptr)
		acquire(self, block, random, size);
	else if (what < 3)
		resize(self, block, size);
	else
		give_back(self, block, random);
}

static void *run(void *arg)
{
	struct worker *self = arg;
	self->tid = gettid();
	for (;;) {
		phases_begin();
		for (size_t i = 0; i < OPERATIONS; i++)
			step(self);
		phases_end();
	}
	return NULL;
}

static void run_phase(void)
{
	phase++;
	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *w = &worker[i];
		memset(w->calls, 0, sizeof(w->calls));
		memset(w->bytes, 0, sizeof(w->bytes));
		w->freed = (struct freed){0};
		w->live_blocks = w->live_bytes = 0;
	}
	phases_begin();
	phases_end();
}

static void say_books(void)
{
	struct freed freed = {0};
	uint64_t all_calls = 0, all_bytes = 0;
	int64_t live_blocks = 0, live_bytes = 0;
	speak_add("{\"functions\":{");
	for (int f = 0; f < COUNT; f++) {
		uint64_t calls = 0, bytes = 0;
		for (unsigned i = 0; i < THREADS; i++) {
			calls += worker[i].calls[f];
			bytes += worker[i].bytes[f];
		}
		speak_add("%s\"%s\":{\"calls\":%lu,\"bytes\":%lu}", f ? "," : "", function_name[f],
			calls, bytes);
		all_calls += calls;
		all_bytes += bytes;
	}
	for (unsigned i = 0; i < THREADS; i++) {
		freed_add(&freed, &worker[i].freed);
		live_blocks += worker[i].live_blocks;
		live_bytes += worker[i].live_bytes;
	}
	speak_add("},\"allocations\":%lu,\"allocated_bytes\":%lu", all_calls, all_bytes);
	freed_say(&freed);
	speak_add(",\"outstanding_blocks\":%ld,\"outstanding_bytes\":%ld,\"threads\":[",
		(long)live_blocks, (long)live_bytes);
	for (unsigned i = 0; i < THREADS; i++) {
		uint64_t calls = 0, bytes = 0;
		for (int f = 0; f < COUNT; f++) {
			calls += worker[i].calls[f];
			bytes += worker[i].bytes[f];
		}
		freed_say_thread(i == 0, worker[i].tid, calls, bytes,
			worker[i].freed.frees + worker[i].freed.before_frees);
	}
	speak_add("]}");
	speak_send();
}

int main(void)
{
	phases_init(THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		worker[i].seed = 20260101 + i * 0x9e3779b97f4a7c15u;
		if (pthread_create(&worker[i].thread, NULL, run, &worker[i]))
			speak_fail("pthread_create: errno %d", errno);
	}
	phases_obey(run_phase, say_books);
	_exit(0);
}
