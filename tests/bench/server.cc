/* SPDX-License-Identifier: Apache-2.0
 *
 * A server under full load: threads that answer requests from strings, vectors and a map of their
 * own. Measures on command, so that the same process can be measured before and while it is tapped.
 *
 * usage: server THREADS      commands on stdin: measure, quit
 *
 * measure prints, after a second: CPU nanoseconds of the process per request, wall nanoseconds per
 * request, and requests answered.
 */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace
{

constexpr unsigned kThreadsMax = 64;
constexpr unsigned kKeys = 4096;
constexpr unsigned kMeasureS = 1; // counted in while the threads answer; nothing is waited for

struct alignas(64) Counter {
	std::atomic<uint64_t> requests{0};
};

Counter counters[kThreadsMax];

double now_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

class Session
{
      public:
	explicit Session(uint64_t seed) : state_(seed * 2654435761u + 1)
	{
	}

	uint64_t answer()
	{
		uint64_t key = next() % kKeys;
		switch (next() % 4) {
		case 0:
			return store(key);
		case 1:
			return drop(key);
		default:
			return look_up(key);
		}
	}

      private:
	uint64_t next()
	{
		state_ ^= state_ << 13;
		state_ ^= state_ >> 7;
		state_ ^= state_ << 17;
		return state_;
	}

	__attribute__((noinline)) std::string render(uint64_t key, size_t pad)
	{
		std::string text = "request for the key " + std::to_string(key);
		text.append(pad, 'x');
		return text;
	}

	__attribute__((noinline)) uint64_t store(uint64_t key)
	{
		table_[key] = render(key, next() % 200);
		return table_.size();
	}

	__attribute__((noinline)) uint64_t drop(uint64_t key)
	{
		return table_.erase(key);
	}

	__attribute__((noinline)) uint64_t look_up(uint64_t key)
	{
		std::vector<std::string> lines;
		for (auto at = table_.lower_bound(key); at != table_.end() && lines.size() < 4;
			++at)
			lines.push_back(at->second);
		uint64_t bytes = 0;
		for (const std::string &line : lines)
			bytes += line.size();
		return bytes;
	}

	std::map<uint64_t, std::string> table_;
	uint64_t state_;
};

void serve(unsigned at)
{
	Session session(at + 1);
	uint64_t sum = 0;
	for (uint64_t i = 1;; i++) {
		sum += session.answer();
		counters[at].requests.store(i, std::memory_order_relaxed);
	}
}

uint64_t total(unsigned threads)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < threads; i++)
		sum += counters[i].requests.load(std::memory_order_relaxed);
	return sum;
}

void measure(unsigned threads)
{
	double cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID), wall = now_ns(CLOCK_MONOTONIC);
	uint64_t before = total(threads);
	sleep(kMeasureS);
	double requests = static_cast<double>(total(threads) - before);
	cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	wall = now_ns(CLOCK_MONOTONIC) - wall;
	printf("%.2f %.2f %.0f\n", cpu / requests, wall / requests, requests);
	fflush(stdout);
}

} // namespace

int main(int argc, char **argv)
{
	char line[64];
	unsigned threads = argc == 2 ? static_cast<unsigned>(strtoul(argv[1], nullptr, 10)) : 0;
	if (threads < 1 || threads > kThreadsMax)
		return 2;
	for (unsigned i = 0; i < threads; i++)
		std::thread(serve, i).detach();
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0)
		measure(threads);
	_exit(0);
}
