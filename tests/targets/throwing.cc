// SPDX-License-Identifier: Apache-2.0
//
// Exceptions all the time, in several threads: out of operator new, out of its new_handler, held
// while a destructor sleeps, thrown on in other threads, and the unwinding of cancelled threads.
// Checks that each object is destroyed and each exception caught. "count" answers with the rounds.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

#include "tests/targets/speak.h"

static std::atomic<long> rounds, alive;
static std::atomic<bool> stopping;
static volatile size_t too_much = static_cast<size_t>(PTRDIFF_MAX) - 4096;

struct exhausted : std::bad_alloc {
	std::unique_ptr<std::string> text{new std::string(100, 'e')};
	exhausted() = default;
	exhausted(const exhausted &) : exhausted()
	{
	}
};

// Allocates and sleeps at the end of its scope, while an exception is in flight.
class resting
{
	std::string text = std::string(200, 'r');

      public:
	resting()
	{
		alive++;
	}
	resting(const resting &) = delete;
	~resting()
	{
		std::vector<std::string> more(3, text);
		std::this_thread::sleep_for(std::chrono::microseconds(200));
		alive--;
	}
};

static void refuse()
{
	throw exhausted();
}

__attribute__((noinline)) static void ask_for_too_much(unsigned levels)
{
	resting rest;
	if (levels)
		return ask_for_too_much(levels - 1);
	::operator delete(::operator new(too_much));
}

// Throws through frames that catch the exception and rethrow it.
__attribute__((noinline)) static void hand_on(unsigned levels)
{
	try {
		resting rest;
		if (levels == 0)
			ask_for_too_much(2);
		else
			hand_on(levels - 1);
	} catch (const std::bad_alloc &) {
		auto more = std::make_unique<std::string>(300, 'h');
		throw;
	}
}

static void expect_exhausted(void (*run)(unsigned), unsigned levels)
{
	try {
		run(levels);
	} catch (const exhausted &error) {
		if (*error.text != std::string(100, 'e'))
			speak_fail("another text");
		return;
	}
	speak_fail("nothing was thrown");
}

static void throw_elsewhere()
{
	auto promise = std::async(std::launch::async, [] { hand_on(1); });
	try {
		promise.get();
	} catch (const exhausted &) {
		return;
	}
	speak_fail("nothing was thrown in the other thread");
}

static void *wait_for_the_end(void *started)
{
	resting outer, inner;
	*static_cast<std::atomic<bool> *>(started) = true;
	for (;;)
		pause();
}

static void cancel_one()
{
	std::atomic<bool> started{false};
	pthread_t thread;
	void *result;
	if (pthread_create(&thread, nullptr, wait_for_the_end, &started))
		speak_fail("no thread");
	while (!started)
		std::this_thread::yield();
	pthread_cancel(thread);
	pthread_join(thread, &result);
	if (result != PTHREAD_CANCELED)
		speak_fail("not cancelled");
}

static void run()
{
	while (!stopping) {
		expect_exhausted(ask_for_too_much, 3);
		expect_exhausted(hand_on, 4);
		throw_elsewhere();
		cancel_one();
		rounds++;
	}
}

int main()
{
	std::vector<std::thread> threads;
	std::set_new_handler(refuse);
	for (int i = 0; i < 3; i++)
		threads.emplace_back(run);
	speak_ready();
	while (strcmp(speak_hear(), "stop") != 0) {
		speak_add("%ld", rounds.load());
		speak_send();
	}
	stopping = true;
	for (auto &thread : threads)
		thread.join();
	if (alive)
		speak_fail("%ld objects are left", alive.load());
	return 0;
}
