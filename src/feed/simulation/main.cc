// SPDX-License-Identifier: Apache-2.0
// feed_simulation [--schedules N] [--seed S]   random schedules from seed S (printed; random without one)
// feed_simulation --replay SEED                one of them, told step by step
//
// Exit status 1: a schedule broke a rule, or a kind of fault never hit in the whole batch.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "feed/simulation/rank.h"
#include "feed/simulation/world.h"

namespace stoker::feed::simulation {
namespace {
struct Result {
  uint64_t counting = 0, empty = 0;
  std::array<uint64_t, kFaultKinds> planned{}, hit{};
  Tally tally;
  std::vector<std::string> breaches;

  void add(const Result& other) {
    counting += other.counting, empty += other.empty;
    for (size_t kind = 0; kind < kFaultKinds; ++kind)
      planned[kind] += other.planned[kind], hit[kind] += other.hit[kind];
    tally.add(other.tally);
    breaches.insert(breaches.end(), other.breaches.begin(), other.breaches.end());
  }
};

// A schedule with a fault that nobody noticed counts as none.
void run_one(uint64_t seed, bool verbose, Result& result) {
  Schedule schedule = make_schedule(seed);
  if (verbose) std::printf("%s\n", schedule.text().c_str());
  World world(schedule, verbose);
  bool fine = world.run();
  bool all_hit = true;
  for (const Fault& fault : world.faults()) {
    ++result.planned[static_cast<size_t>(fault.kind)];
    result.hit[static_cast<size_t>(fault.kind)] += fault.hit;
    all_hit &= fault.hit;
    if (verbose)
      std::printf("%s: %s\n", name_of(fault.kind),
                  fault.hit      ? "hit"
                  : fault.struck ? "unnoticed"
                                 : "never struck");
  }
  ++(all_hit ? result.counting : result.empty);
  result.tally.add(world.tally());
  if (!fine) result.breaches.push_back("seed " + std::to_string(seed) + ", " + world.breach());
}

void print(const Result& result, double seconds) {
  std::printf("%llu schedules counted, %llu were void, in %.1f s: %.0f a minute\n",
              static_cast<unsigned long long>(result.counting), static_cast<unsigned long long>(result.empty),
              seconds, static_cast<double>(result.counting) * 60 / seconds);
  for (size_t kind = 0; kind < kFaultKinds; ++kind)
    std::printf("  %-12s planned %8llu  hit %8llu\n", name_of(static_cast<FaultKind>(kind)),
                static_cast<unsigned long long>(result.planned[kind]),
                static_cast<unsigned long long>(result.hit[kind]));
  std::printf("%s\n", result.tally.text().c_str());
}

int run_many(uint64_t wanted, uint64_t seed, unsigned threads) {
  std::printf("feed_simulation: %llu schedules from seed %llu\n", static_cast<unsigned long long>(wanted),
              static_cast<unsigned long long>(seed));
  std::vector<Result> results(threads);
  std::vector<std::thread> running;
  auto began = std::chrono::steady_clock::now();
  for (unsigned thread = 0; thread < threads; ++thread)
    running.emplace_back([&, thread] {
      Result& mine = results[thread];
      uint64_t share = wanted / threads + (thread < wanted % threads);
      for (uint64_t i = thread; mine.counting < share && mine.breaches.size() < 5; i += threads)
        run_one(seed + i, false, mine);
    });
  for (std::thread& thread : running) thread.join();
  Result all;
  for (const Result& result : results) all.add(result);
  print(all, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  for (const std::string& breach : all.breaches)
    std::printf("WRONG: %s\n       feed_simulation --replay %s\n", breach.c_str(),
                breach.substr(5, breach.find(',') - 5).c_str());
  bool each_kind = std::all_of(all.hit.begin(), all.hit.end(), [](uint64_t count) { return count > 0; });
  if (!each_kind && wanted >= 1000) std::printf("WRONG: a kind of fault never hit\n");
  return all.breaches.empty() && (each_kind || wanted < 1000) ? 0 : 1;
}

int run(int argc, char** argv) {
  uint64_t schedules = 4000, seed = std::random_device{}() % 1'000'000'000;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string option = argv[i];
    uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (option == "--schedules") {
      schedules = value;
    } else if (option == "--seed") {
      seed = value;
    } else if (option == "--threads") {
      threads = static_cast<unsigned>(std::clamp<uint64_t>(value, 1, 256));
    } else if (option == "--replay") {
      Result result;
      run_one(value, true, result);
      for (const std::string& breach : result.breaches) std::printf("WRONG: %s\n", breach.c_str());
      return result.breaches.empty() ? 0 : 1;
    } else {
      std::fprintf(stderr, "feed_simulation: no option %s\n", argv[i]);
      return 2;
    }
  }
  return run_many(schedules, seed, threads);
}
}  // namespace
}  // namespace stoker::feed::simulation

int main(int argc, char** argv) { return stoker::feed::simulation::run(argc, argv); }
