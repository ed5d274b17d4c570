// SPDX-License-Identifier: Apache-2.0
//
// Keeps its own books, like ledger.c, of operators new and delete in all their forms, and of what
// they throw: linked with an allocator whose operators do not call malloc. `go` runs one phase of a
// seeded mix in every thread; the answer is one JSON line.
// usage: operators [-n]        -n: nothing fails
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <unistd.h>

#include "tests/targets/freed.h"
#include "tests/targets/phases.h"
#include "tests/targets/random.h"
#include "tests/targets/speak.h"

#define THREADS	   3
#define TABLE	   64
#define MAILBOXES  32
#define OPERATIONS 60000

// The size that the C++ library allocates for an exception: its header, and the object.
#define EXCEPTION_BYTES (128 + sizeof(std::bad_alloc))

enum function { PLAIN, ALIGNED, COUNT };

// The names under which the trace has the operators.
static const char *const function_name[COUNT] = {"malloc", "aligned_alloc"};

struct block {
	unsigned char *ptr; // NULL: none
	size_t size;
	size_t alignment; // 0: any
	bool array;
	unsigned phase;
};

struct tally {
	uint64_t calls[COUNT], bytes[COUNT], failures;
	struct freed freed;
};

static struct worker {
	pthread_t thread;
	pid_t tid;
	uint64_t seed;
	struct tally tally;
	struct block storage[TABLE];
	struct block *table[TABLE]; // points into any worker's storage: workers exchange blocks
} worker[THREADS];

static struct block mailbox_storage[MAILBOXES];
static std::atomic<struct block *> mailbox[MAILBOXES];
static std::atomic<long long> live_bytes, live_blocks;
static volatile size_t too_much = static_cast<size_t>(PTRDIFF_MAX) - 4096;
static thread_local unsigned handled;
struct given_up : std::bad_alloc {
};
static bool never_fails;

static void book_new(struct tally *tally, struct block *block, void *ptr, size_t size,
	size_t alignment, bool array)
{
	if (!ptr || (uintptr_t)ptr % (alignment ? alignment : 1))
		speak_fail("new of %zu bytes, aligned to %zu, gave %p", size, alignment, ptr);
	*block = {static_cast<unsigned char *>(ptr), size, alignment, array, phase};
	block->ptr[0] = block->ptr[size - 1] = (unsigned char)size;
	enum function function = alignment ? ALIGNED : PLAIN;
	tally->calls[function]++;
	tally->bytes[function] += size;
	live_blocks++;
	live_bytes += (long long)size;
}

static void book_gone(struct tally *tally, const struct block *block)
{
	if (block->ptr[0] != (unsigned char)block->size ||
		block->ptr[block->size - 1] != (unsigned char)block->size)
		speak_fail(
			"block %p of %zu bytes was overwritten", (void *)block->ptr, block->size);
	if (block->phase != phase) {
		tally->freed.before_frees++;
		tally->freed.before_bytes += malloc_usable_size(block->ptr);
		return;
	}
	tally->freed.frees++;
	tally->freed.bytes += block->size;
	live_blocks--;
	live_bytes -= (long long)block->size;
}

static void acquire(struct tally *tally, struct block *block, uint64_t random)
{
	// Odd sizes, because mimalloc 2.0.9 does not align a block whose size equals its alignment.
	size_t size = 1 | (random >> 16 & (random % 16 ? 0xff : 0xffff));
	bool nothrow = random >> 4 & 1, array = random >> 5 & 1;
	size_t alignment = random >> 6 & 3 ? 0 : 16ul << (random >> 8 & 7);
	auto align = static_cast<std::align_val_t>(alignment);
	void *ptr;
	if (alignment && nothrow)
		ptr = array ? ::operator new[](size, align, std::nothrow)
			    : ::operator new(size, align, std::nothrow);
	else if (alignment)
		ptr = array ? ::operator new[](size, align) : ::operator new(size, align);
	else if (nothrow)
		ptr = array ? ::operator new[](size, std::nothrow)
			    : ::operator new(size, std::nothrow);
	else
		ptr = array ? ::operator new[](size) : ::operator new(size);
	book_new(tally, block, ptr, size, alignment, array);
}

static void give_back_aligned(const struct block *block, unsigned form)
{
	void *ptr = block->ptr;
	auto align = static_cast<std::align_val_t>(block->alignment);
	switch (form) {
	case 0:
		return block->array ? ::operator delete[](ptr, align)
				    : ::operator delete(ptr, align);
	case 1:
		return block->array ? ::operator delete[](ptr, align, std::nothrow)
				    : ::operator delete(ptr, align, std::nothrow);
	default:
		return block->array ? ::operator delete[](ptr, block->size, align)
				    : ::operator delete(ptr, block->size, align);
	}
}

static void give_back_plain(const struct block *block, unsigned form)
{
	void *ptr = block->ptr;
	switch (form) {
	case 0:
		return block->array ? ::operator delete[](ptr) : ::operator delete(ptr);
	case 1:
		return block->array ? ::operator delete[](ptr, std::nothrow)
				    : ::operator delete(ptr, std::nothrow);
	default:
		return block->array ? ::operator delete[](ptr, block->size)
				    : ::operator delete(ptr, block->size);
	}
}

static void give_back(struct tally *tally, struct block *block, uint64_t random)
{
	book_gone(tally, block);
	if (block->alignment)
		give_back_aligned(block, random % 3);
	else
		give_back_plain(block, random % 3);
	block->ptr = nullptr;
}

// The new-handler: allocates, and throws at every second call. operator new calls it again after
// the first.
static void handle()
{
	struct tally *tally = nullptr;
	for (auto &one : worker)
		if (one.tid == gettid())
			tally = &one.tally;
	if (!tally)
		speak_fail("a handler without a thread of its own");
	struct block block = {};
	book_new(tally, &block, ::operator new(33), 33, 0, false);
	give_back(tally, &block, 0);
	if (handled++ % 2)
		throw given_up();
}

// A thrown and caught exception is one malloc and one free.
static void book_exception(struct tally *tally)
{
	tally->calls[PLAIN]++;
	tally->bytes[PLAIN] += EXCEPTION_BYTES;
	tally->freed.frees++;
	tally->freed.bytes += EXCEPTION_BYTES;
}

__attribute__((noinline)) static void ask_for_too_much(unsigned form)
{
	auto align = static_cast<std::align_val_t>(64);
	switch (form) {
	case 0:
		return ::operator delete(::operator new(too_much));
	case 1:
		return ::operator delete[](::operator new[](too_much));
	default:
		return ::operator delete(::operator new(too_much, align), align);
	}
}

static void fail(struct tally *tally, uint64_t random)
{
	unsigned before = handled;
	tally->failures++;
	try {
		ask_for_too_much(random % 3);
		speak_fail("new gave %zu bytes", too_much);
	} catch (const given_up &) {
		book_exception(tally);
	} catch (const std::bad_alloc &) {
		// jemalloc has caught the handler's exception, and thrown another one.
		book_exception(tally);
		book_exception(tally);
	}
	if (handled != before + 2)
		speak_fail("the handler was called %u times", handled - before);
}

static void step(struct worker *self)
{
	uint64_t random = next_random(&self->seed);
	struct block **at = &self->table[random % TABLE];
	unsigned what = (random >> 8) % 1000;
	random = next_random(&self->seed);
	if (what < 3 && !never_fails)
		fail(&self->tally, random);
	else if (what < 100)
		*at = mailbox[random % MAILBOXES].exchange(*at);
	else if (!(*at)->ptr)
		acquire(&self->tally, *at, random);
	else
		give_back(&self->tally, *at, random);
}

static void *run(void *arg)
{
	auto *self = static_cast<struct worker *>(arg);
	self->tid = gettid();
	// The first exception of a thread makes the C++ library allocate; have that happen before
	// the first phase.
	if (!never_fails)
		fail(&self->tally, 0);
	for (;;) {
		phases_begin();
		for (size_t i = 0; i < OPERATIONS; i++)
			step(self);
		phases_end();
	}
	return nullptr;
}

static void run_phase()
{
	phase++;
	live_bytes = live_blocks = 0;
	for (auto &one : worker)
		one.tally = {};
	phases_begin();
	phases_end();
}

static void say_books()
{
	struct tally sum = {};
	for (const auto &one : worker) {
		for (int f = 0; f < COUNT; f++) {
			sum.calls[f] += one.tally.calls[f];
			sum.bytes[f] += one.tally.bytes[f];
		}
		sum.failures += one.tally.failures;
		freed_add(&sum.freed, &one.tally.freed);
	}
	speak_add("{\"functions\":{");
	for (int f = 0; f < COUNT; f++)
		speak_add("%s\"%s\":{\"calls\":%lu,\"bytes\":%lu}", f ? "," : "", function_name[f],
			sum.calls[f], sum.bytes[f]);
	speak_add("},\"allocations\":%lu,\"allocated_bytes\":%lu,\"failures\":%lu",
		sum.calls[PLAIN] + sum.calls[ALIGNED], sum.bytes[PLAIN] + sum.bytes[ALIGNED],
		sum.failures);
	freed_say(&sum.freed);
	speak_add(",\"outstanding_blocks\":%lld,\"outstanding_bytes\":%lld,\"threads\":[",
		live_blocks.load(), live_bytes.load());
	for (unsigned i = 0; i < THREADS; i++) {
		const struct tally *tally = &worker[i].tally;
		freed_say_thread(i == 0, worker[i].tid, tally->calls[PLAIN] + tally->calls[ALIGNED],
			tally->bytes[PLAIN] + tally->bytes[ALIGNED],
			tally->freed.frees + tally->freed.before_frees);
	}
	speak_add("]}");
	speak_send();
}

int main(int argc, char **argv)
{
	never_fails = argc > 1 && !strcmp(argv[1], "-n");
	std::set_new_handler(handle);
	for (unsigned i = 0; i < MAILBOXES; i++)
		mailbox[i] = &mailbox_storage[i];
	phases_init(THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		worker[i].seed = 20260101 + i * 0x9e3779b97f4a7c15u;
		for (unsigned j = 0; j < TABLE; j++)
			worker[i].table[j] = &worker[i].storage[j];
		if (pthread_create(&worker[i].thread, nullptr, run, &worker[i]))
			speak_fail("pthread_create: errno %d", errno);
	}
	phases_obey(run_phase, say_books);
	_exit(0);
}
