// SPDX-License-Identifier: Apache-2.0
// What a batch costs from a feed worker to a client over loopback TCP: `stoker/exact` of
// bench/transport_tcp_u8.py.
//
// Worker and client are the product's, in two processes, as they are configured by default: framing, hashing
// at both ends, strict order, digest. Only the producer is ours: it writes the position into a row and leaves
// the rest, so that making rows is not in the figure. Prints what bench/measure.py prints; an item is 10^9
// bytes, CPU that of both.
//
//   feed_transport [--seconds 2] [--windows 3] [--warmup 2]
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "base/clock.h"
#include "feed/client.h"
#include "feed/worker.h"

namespace {

using namespace stoker;

constexpr size_t kRow = 224 * 224 * 3;
constexpr uint64_t kRows = 64;
constexpr uint64_t kAhead = 4;  // batches asked for and not yet taken
constexpr char kToken[] = "bench";

[[noreturn]] void fail(const std::string& what) {
  fprintf(stderr, "%s\n", what.c_str());
  exit(1);
}

class Stamp : public pipeline::Producer {
 public:
  Stamp() { layout_.leaves = {{"image", pipeline::DType::kUint8, {224, 224, 3}, kRow}}; }
  const pipeline::RowLayout& layout() const override { return layout_; }
  uint64_t items() const override { return uint64_t{1} << 40; }
  Status produce(pipeline::SampleRef ref, std::span<uint8_t* const> rows, pipeline::Scratch&) const override {
    store_le(rows[0], ref.position);
    return ok();
  }

 private:
  pipeline::RowLayout layout_;
};

// Serves until the parent ends; says its address on `out`.
[[noreturn]] void serve(int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  feed::WorkerOptions options;
  options.listen = "127.0.0.1:0";
  options.token = kToken;
  options.open_native = [](const std::string&, ByteView) -> Result<std::unique_ptr<pipeline::Producer>> {
    return std::unique_ptr<pipeline::Producer>(std::make_unique<Stamp>());
  };
  auto worker = feed::Worker::open(std::move(options));
  if (!worker.ok()) fail(worker.error().message);
  const std::string address = worker.value()->address();
  if (write(out, address.data(), address.size()) < 0) fail("pipe");
  close(out);
  worker.value()->run();
  _exit(0);
}

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

// Batches in order, always kAhead of them asked for.
class Stream {
 public:
  explicit Stream(feed::Client& client) : client_(client) {}

  void take() {
    for (; pushed_ < taken_ + kAhead; ++pushed_) {
      std::vector<feed::Ref> refs;
      for (uint64_t i = 0; i < kRows; ++i) refs.push_back({pushed_ * kRows + i, pushed_ * kRows + i});
      if (auto status = client_.push(pushed_, std::move(refs)); !status.ok()) fail(status.error().message);
    }
    auto next = client_.next(monotonic_ns() + 10'000'000'000);
    if (auto* error = std::get_if<feed::NextError>(&next)) fail(error->fault.error.message);
    const auto& batch = std::get<feed::Batch>(next);
    const uint8_t* last = batch.slot->bytes().data() + (kRows - 1) * kRow;
    if (load_le<uint64_t>(last) != taken_ * kRows + kRows - 1) fail("a row of another position");
    ++taken_;
  }

 private:
  feed::Client& client_;
  uint64_t pushed_ = 0, taken_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  double window_s = 2, warmup_s = 2;
  int windows = 3;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seconds") window_s = atof(argv[i + 1]);
    if (name == "--windows") windows = atoi(argv[i + 1]);
    if (name == "--warmup") warmup_s = atof(argv[i + 1]);
  }

  int ends[2];
  if (pipe(ends) != 0) fail("pipe");
  const pid_t child = fork();
  if (child == 0) serve(ends[1]);
  close(ends[1]);
  char address[64] = {};
  if (child < 0 || read(ends[0], address, sizeof address - 1) <= 0) fail("the worker did not start");

  feed::ClientOptions options;
  options.plan = R"({"format":"stoker-plan/1","kind":"native"})";
  options.workers = {address};
  options.token = kToken;
  auto client = feed::Client::open(std::move(options));
  if (!client.ok()) fail(client.error().message);
  Stream stream(*client.value());

  clockid_t child_clock;
  clock_getcpuclockid(child, &child_clock);
  const auto cpu = [&] { return seconds(CLOCK_PROCESS_CPUTIME_ID) + seconds(child_clock); };
  const double begin = seconds(CLOCK_MONOTONIC);
  do stream.take();
  while (seconds(CLOCK_MONOTONIC) - begin < warmup_s);

  double items = 0, least_cpu = 1e9, least_wall = 1e9;
  for (int window = 0; window < windows; ++window) {
    const double start = seconds(CLOCK_MONOTONIC), start_cpu = cpu();
    double gigabytes = 0, wall = 0;
    while (wall < window_s) {
      stream.take();
      gigabytes += kRows * kRow / 1e9;
      wall = seconds(CLOCK_MONOTONIC) - start;
    }
    items += gigabytes;
    least_cpu = std::min(least_cpu, (cpu() - start_cpu) / gigabytes);
    least_wall = std::min(least_wall, wall / gigabytes);
  }
  client.value()->close();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  rusage self, other;
  getrusage(RUSAGE_SELF, &self);
  getrusage(RUSAGE_CHILDREN, &other);
  printf(
      "{\"items\": %.3f, \"cpu_s_per_item\": %.4f, \"wall_s_per_item\": %.4f, \"rss_mb\": %ld, "
      "\"note\": \"rows not made\"}\n",
      items, least_cpu, least_wall, (self.ru_maxrss + other.ru_maxrss) / 1024);
  return 0;
}
