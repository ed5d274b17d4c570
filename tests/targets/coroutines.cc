// SPDX-License-Identifier: Apache-2.0
//
// Keeps its own books, like ledger.c, of what coroutines (boost.context) allocate: each runs on a
// stack of its own, in turns with others of its thread, fills containers of std::pmr, whose
// resources ask operator new for aligned blocks, and throws. `go` runs one phase; the answer is one
// JSON line.
#include <atomic>
#include <boost/context/fiber.hpp>
#include <memory_resource>
#include <new>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#include "tests/targets/freed.h"
#include "tests/targets/phases.h"
#include "tests/targets/random.h"
#include "tests/targets/speak.h"

namespace ctx = boost::context;

#define THREADS 3
#define FIBERS	8
#define TURNS	500

// The size that the C++ library allocates for an exception: its header, and the object.
#define EXCEPTION_BYTES (128 + sizeof(int))

struct tally {
	uint64_t calls, bytes, exceptions;
	struct freed freed;
};

static std::atomic<long long> live_bytes, live_blocks;

// The upstream resource of all containers' resources.
class booked : public std::pmr::memory_resource
{
	static size_t rounded(size_t bytes, size_t alignment)
	{
		// The C++ library's operator new rounds the size so for aligned_alloc.
		return (bytes + alignment - 1) & ~(alignment - 1);
	}
	void *do_allocate(size_t bytes, size_t alignment) override
	{
		void *block = ::operator new(bytes, static_cast<std::align_val_t>(alignment));
		tally->calls++;
		tally->bytes += rounded(bytes, alignment);
		live_blocks++;
		live_bytes += (long long)rounded(bytes, alignment);
		return block;
	}
	void do_deallocate(void *block, size_t bytes, size_t alignment) override
	{
		tally->freed.frees++;
		tally->freed.bytes += rounded(bytes, alignment);
		live_blocks--;
		live_bytes -= (long long)rounded(bytes, alignment);
		::operator delete(block, bytes, static_cast<std::align_val_t>(alignment));
	}
	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
	{
		return this == &other;
	}

      public:
	struct tally *tally = nullptr;
};

static struct worker {
	pthread_t thread;
	pid_t tid;
	struct tally tally;
} worker[THREADS];

__attribute__((noinline)) static void throw_one(std::pmr::string &text, uint64_t random)
{
	text.append(random % 3000, 'x');
	if (random % 5 == 0)
		throw static_cast<int>(random % 1000);
}

// One turn of a coroutine, which switches to others in the middle and frees all its blocks at the
// end.
static void turn(booked &resource, ctx::fiber &caller, uint64_t random)
{
	std::pmr::monotonic_buffer_resource arena(256, &resource);
	std::pmr::unsynchronized_pool_resource pool(&resource);
	std::pmr::vector<std::pmr::string> words(&arena);
	std::pmr::unordered_map<uint64_t, std::pmr::string> map(&pool);
	try {
		for (unsigned i = 0; i < 6; i++) {
			words.emplace_back(64 + random % 200, 'w');
			map.try_emplace(random + i, 40 + i, 'm');
			if (i == 3)
				caller = std::move(caller).resume();
			throw_one(words.back(), random >> i);
		}
	} catch (int value) {
		resource.tally->exceptions++;
		if ((unsigned)value >= 1000)
			speak_fail("another exception: %d", value);
	}
}

static ctx::fiber make_coroutine(struct tally *tally, bool *rests, uint64_t seed)
{
	return ctx::fiber([tally, rests, seed](ctx::fiber &&caller) mutable {
		booked resource;
		resource.tally = tally;
		for (;;) {
			*rests = true;
			caller = std::move(caller).resume();
			*rests = false;
			turn(resource, caller, next_random(&seed));
		}
		return std::move(caller);
	});
}

static void *run(void *arg)
{
	auto *self = static_cast<struct worker *>(arg);
	ctx::fiber fiber[FIBERS];
	bool rests[FIBERS];
	uint64_t seed = 20260101 + (uint64_t)(self - worker) * 0x9e3779b97f4a7c15u;
	self->tid = gettid();
	for (unsigned i = 0; i < FIBERS; i++) {
		next_random(&seed);
		fiber[i] = make_coroutine(&self->tally, &rests[i], seed).resume();
	}
	try {
		throw 0; // A thread's first exception makes the C++ library allocate.
	} catch (int) {
	}
	for (;;) {
		phases_begin();
		for (unsigned i = 0; i < TURNS; i++)
			for (auto &one : fiber)
				one = std::move(one).resume();
		// Let each coroutine finish its turn: no blocks stay between phases.
		for (unsigned i = 0; i < FIBERS; i++)
			while (!rests[i])
				fiber[i] = std::move(fiber[i]).resume();
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
		sum.calls += one.tally.calls;
		sum.bytes += one.tally.bytes;
		sum.exceptions += one.tally.exceptions;
		freed_add(&sum.freed, &one.tally.freed);
	}
	uint64_t thrown = sum.exceptions * EXCEPTION_BYTES;
	sum.freed.frees += sum.exceptions;
	sum.freed.bytes += thrown;
	speak_add("{\"functions\":{\"malloc\":{\"calls\":%lu,\"bytes\":%lu},"
		  "\"aligned_alloc\":{\"calls\":%lu,\"bytes\":%lu}}",
		sum.exceptions, thrown, sum.calls, sum.bytes);
	speak_add(",\"allocations\":%lu,\"allocated_bytes\":%lu", sum.calls + sum.exceptions,
		sum.bytes + thrown);
	freed_say(&sum.freed);
	speak_add(",\"outstanding_blocks\":%lld,\"outstanding_bytes\":%lld,\"threads\":[",
		live_blocks.load(), live_bytes.load());
	for (unsigned i = 0; i < THREADS; i++) {
		const struct tally *tally = &worker[i].tally;
		freed_say_thread(i == 0, worker[i].tid, tally->calls + tally->exceptions,
			tally->bytes + tally->exceptions * EXCEPTION_BYTES,
			tally->freed.frees + tally->exceptions);
	}
	speak_add("]}");
	speak_send();
}

int main()
{
	phases_init(THREADS);
	for (auto &one : worker)
		if (pthread_create(&one.thread, nullptr, run, &one))
			speak_fail("pthread_create: errno %d", errno);
	phases_obey(run_phase, say_books);
	_exit(0);
}
