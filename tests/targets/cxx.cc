// SPDX-License-Identifier: Apache-2.0
//
// An ordinary C++ program: threads that fill and empty strings, vectors, maps and functions, with
// an exception and a breath now and then. "count" answers with the rounds so far.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/targets/speak.h"

static std::atomic<unsigned long long> rounds;
static std::atomic<bool> stopping;

static std::map<std::string, std::vector<int>> fill(unsigned seed)
{
	std::map<std::string, std::vector<int>> map;
	for (unsigned i = 0; i < 60; i++) {
		std::string key = "a key that is too long to stand in place " +
				  std::to_string((seed * 7919 + i * 104729) % 97);
		map[key].push_back(static_cast<int>(i));
	}
	return map;
}

static size_t count(const std::map<std::string, std::vector<int>> &map)
{
	std::function<size_t(size_t)> add = [&map, pad = std::string(100, 'x')](size_t start) {
		for (const auto &entry : map)
			start += entry.second.size();
		return start + pad.size() - 100;
	};
	size_t total = add(0);
	if (total % 7 == 4)
		throw std::runtime_error("counted " + std::to_string(total));
	return total;
}

static void run()
{
	for (unsigned seed = 0; !stopping; seed++) {
		auto map = fill(seed);
		size_t total = 60;
		try {
			total = count(map);
		} catch (const std::runtime_error &error) {
			if (std::string(error.what()) != "counted 60")
				speak_fail("wrong exception: %s", error.what());
		}
		std::vector<std::unique_ptr<std::string>> words;
		for (const auto &entry : map)
			words.push_back(std::make_unique<std::string>(entry.first));
		std::sort(words.begin(), words.end(),
			[](const auto &a, const auto &b) { return *a > *b; });
		if (total != 60 || words.size() != map.size())
			speak_fail("counted %zu", total);
		rounds++;
		std::this_thread::sleep_for(std::chrono::microseconds(500));
	}
}

int main()
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(run);
	speak_ready();
	while (strcmp(speak_hear(), "stop") != 0) {
		speak_add("%llu", rounds.load());
		speak_send();
	}
	stopping = true;
	for (auto &thread : threads)
		thread.join();
	return 0;
}
