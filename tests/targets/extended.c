/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts its calls of jemalloc, like ledger.c: of the malloc family, and of mallocx, rallocx,
 * xallocx, dallocx, sdallocx. PREFIX begins the names of jemalloc's functions. `go` runs one phase
 * of a seeded mix of calls in every thread; the answer is the counts, one JSON line.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/targets/freed.h"
#include "tests/targets/phases.h"
#include "tests/targets/random.h"
#include "tests/targets/speak.h"

#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)
#define J(name)	   NAME(PREFIX, name)

void *J(malloc)(size_t size);
void *J(calloc)(size_t count, size_t size);
void *J(realloc)(void *old, size_t size);
void J(free)(void *block);
int J(posix_memalign)(void **out, size_t alignment, size_t size);
void *J(aligned_alloc)(size_t alignment, size_t size);
void *J(mallocx)(size_t size, int flags);
void *J(rallocx)(void *old, size_t size, int flags);
size_t J(xallocx)(void *block, size_t size, size_t extra, int flags);
size_t J(sallocx)(const void *block, int flags);
void J(dallocx)(void *block, int flags);
void J(sdallocx)(void *block, size_t size, int flags);

#define THREADS	   3
#define TABLE	   64
#define MAILBOXES  32
#define OPERATIONS 60000
#define SMALL_MAX  14336 /* bytes */
#define FLAG_ZERO  0x40	 /* MALLOCX_ZERO */

enum function {
	MALLOC,
	CALLOC,
	REALLOC,
	POSIX_MEMALIGN,
	ALIGNED,
	MALLOCX,
	RALLOCX,
	XALLOCX,
	COUNT
};

static const char *const function_name[COUNT] = {"malloc", "calloc", "realloc", "posix_memalign",
	"aligned_alloc", "mallocx", "rallocx", "xallocx"};

struct block {
	unsigned char *ptr; /* NULL: none */
	size_t size;
	int flags; /* its alignment, as the flags of jemalloc's *x functions */
	unsigned phase;
};

struct tally {
	uint64_t calls[COUNT], bytes[COUNT];
	struct freed freed;
};

static struct worker {
	pthread_t thread;
	pid_t tid;
	uint64_t seed;
	struct tally tally;
	struct block storage[TABLE];
	struct block *table[TABLE]; /* into any worker's storage: workers exchange blocks */
} worker[THREADS];

static struct block mailbox_storage[MAILBOXES];
static _Atomic(struct block *) mailbox[MAILBOXES];
static atomic_llong live_bytes, live_blocks;

static void book_new(struct tally *tally, enum function function, struct block *block, void *ptr,
	size_t size, int flags)
{
	if (!ptr || (uintptr_t)ptr % (1ul << (flags & 0x3f)))
		speak_fail("%s(%zu) gave %p", function_name[function], size, ptr);
	*block = (struct block){ptr, size, flags & 0x3f, phase};
	block->ptr[0] = block->ptr[size - 1] = (unsigned char)size;
	tally->calls[function]++;
	tally->bytes[function] += size;
	atomic_fetch_add(&live_blocks, 1);
	atomic_fetch_add(&live_bytes, (long long)size);
}

static void book_gone(struct tally *tally, const struct block *block, size_t usable)
{
	if (block->phase != phase) {
		tally->freed.before_frees++;
		tally->freed.before_bytes += usable;
		return;
	}
	tally->freed.frees++;
	tally->freed.bytes += block->size;
	atomic_fetch_sub(&live_blocks, 1);
	atomic_fetch_sub(&live_bytes, (long long)block->size);
}

static size_t random_size(uint64_t random)
{
	return 1 + (random >> 8 & (random % 16 ? 0xff : 0xffff));
}

static void acquire(struct tally *tally, struct block *block, uint64_t random)
{
	size_t size = random_size(random >> 8);
	int flags = 0;
	void *ptr = NULL;
	enum function function = random % REALLOC;
	switch (random >> 32 & 7) {
	case 0:
		flags = 4 + (int)(random >> 40 & 7);
		function = POSIX_MEMALIGN;
		if (J(posix_memalign)(&ptr, 1ul << flags, size))
			ptr = NULL;
		break;
	case 1:
		flags = 4 + (int)(random >> 40 & 7);
		function = ALIGNED;
		ptr = J(aligned_alloc)(1ul << flags, size);
		break;
	case 2:
		function = REALLOC;
		ptr = J(realloc)(NULL, size);
		break;
	case 3:
	case 4:
	case 5:
		flags = (int)(random >> 40 & 7) | (random >> 48 & 1 ? FLAG_ZERO : 0);
		function = MALLOCX;
		ptr = J(mallocx)(size, flags);
		if (ptr && flags & FLAG_ZERO && ((char *)ptr)[size / 2])
			speak_fail("mallocx gave dirty memory");
		break;
	default:
		ptr = function == CALLOC ? J(calloc)(1, size) : J(malloc)(size);
	}
	book_new(tally, function, block, ptr, size, flags);
}

static void check_contents(const struct block *block, size_t size)
{
	if (block->ptr[0] != (unsigned char)block->size ||
		(size == block->size && block->ptr[size - 1] != (unsigned char)size))
		speak_fail("block %p of %zu bytes was overwritten", (void *)block->ptr, size);
}

static void give_back(struct tally *tally, struct block *block, uint64_t random)
{
	size_t usable = J(sallocx)(block->ptr, block->flags);
	check_contents(block, block->size);
	book_gone(tally, block, usable);
	switch (random % 4) {
	case 0:
		J(free)(block->ptr);
		break;
	case 1:
		J(dallocx)(block->ptr, block->flags);
		break;
	default:
		J(sdallocx)(block->ptr, usable, block->flags);
	}
	block->ptr = NULL;
}

static void resize(struct tally *tally, struct block *block, uint64_t random)
{
	size_t size = random_size(random >> 8), usable = J(sallocx)(block->ptr, block->flags);
	bool plain = random & 1;
	void *ptr =
		plain ? J(realloc)(block->ptr, size) : J(rallocx)(block->ptr, size, block->flags);
	book_gone(tally, block, usable);
	int flags = plain ? 0 : block->flags;
	struct block moved = {ptr, block->size, flags, phase};
	if (ptr)
		check_contents(&moved, block->size < size ? block->size : size);
	book_new(tally, plain ? REALLOC : RALLOCX, block, ptr, size, flags);
}

static void resize_in_place(struct tally *tally, struct block *block, uint64_t random)
{
	size_t size = random_size(random >> 8), extra = random & 0xff;
	size_t usable = J(sallocx)(block->ptr, block->flags);
	/* jemalloc 5.3.0 may answer one size for a large block and report another later. */
	if (usable > SMALL_MAX || size + extra > SMALL_MAX)
		return;
	size_t now = J(xallocx)(block->ptr, size, extra, block->flags);
	if (now != J(sallocx)(block->ptr, block->flags))
		speak_fail("xallocx says %zu, sallocx does not", now);
	if (now < size)
		return;
	book_gone(tally, block, usable);
	size_t most = size + extra;
	book_new(tally, XALLOCX, block, block->ptr, now < most ? now : most, block->flags);
}

static void step(struct worker *self)
{
	uint64_t random = next_random(&self->seed);
	struct block **at = &self->table[random % TABLE];
	unsigned what = (random >> 8) % 100;
	random = next_random(&self->seed);
	if (what < 10)
		*at = atomic_exchange(&mailbox[random % MAILBOXES], *at);
	else if (!(*at)->ptr)
		acquire(&self->tally, *at, random);
	else if (what < 35)
		resize(&self->tally, *at, random);
	else if (what < 45)
		resize_in_place(&self->tally, *at, random);
	else
		give_back(&self->tally, *at, random);
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
	atomic_store(&live_bytes, 0);
	atomic_store(&live_blocks, 0);
	for (unsigned i = 0; i < THREADS; i++)
		worker[i].tally = (struct tally){0};
	phases_begin();
	phases_end();
}

static void say_books(void)
{
	struct tally sum = {0};
	uint64_t calls = 0, bytes = 0;
	for (unsigned i = 0; i < THREADS; i++) {
		const struct tally *tally = &worker[i].tally;
		for (int f = 0; f < COUNT; f++) {
			sum.calls[f] += tally->calls[f];
			sum.bytes[f] += tally->bytes[f];
		}
		freed_add(&sum.freed, &tally->freed);
	}
	speak_add("{\"functions\":{");
	for (int f = 0; f < COUNT; f++) {
		speak_add("%s\"%s\":{\"calls\":%lu,\"bytes\":%lu}", f ? "," : "", function_name[f],
			sum.calls[f], sum.bytes[f]);
		calls += sum.calls[f];
		bytes += sum.bytes[f];
	}
	speak_add("},\"allocations\":%lu,\"allocated_bytes\":%lu", calls, bytes);
	freed_say(&sum.freed);
	speak_add(",\"outstanding_blocks\":%lld,\"outstanding_bytes\":%lld,\"threads\":[",
		atomic_load(&live_blocks), atomic_load(&live_bytes));
	for (unsigned i = 0; i < THREADS; i++) {
		const struct tally *tally = &worker[i].tally;
		calls = bytes = 0;
		for (int f = 0; f < COUNT; f++) {
			calls += tally->calls[f];
			bytes += tally->bytes[f];
		}
		freed_say_thread(i == 0, worker[i].tid, calls, bytes,
			tally->freed.frees + tally->freed.before_frees);
	}
	speak_add("]}");
	speak_send();
}

int main(void)
{
	for (unsigned i = 0; i < MAILBOXES; i++)
		mailbox[i] = &mailbox_storage[i];
	phases_init(THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		worker[i].seed = 20260101 + i * 0x9e3779b97f4a7c15u;
		for (unsigned j = 0; j < TABLE; j++)
			worker[i].table[j] = &worker[i].storage[j];
		if (pthread_create(&worker[i].thread, NULL, run, &worker[i]))
			speak_fail("pthread_create: errno %d", errno);
	}
	phases_obey(run_phase, say_books);
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned j = 0; j < TABLE; j++)
			if (worker[i].table[j]->ptr)
				check_contents(worker[i].table[j], worker[i].table[j]->size);
	_exit(0);
}
