// SPDX-License-Identifier: Apache-2.0
// What a batch costs from a feed worker to a client: `stoker/exact` of bench/transport_tcp_u8.py (loopback
// TCP, also of transport_tcp_f32.py with --float 1) and, with --shm 1, of bench/transport_shm.py (the
// client's own child, through shared memory).
//
// Worker and client are the product's, in two processes, as they are configured by default: framing, hashing,
// strict order, digest. Only the producer is ours: it writes the position into a row and leaves the rest, so
// that making rows is not in the figure; with --write 1 it copies each row from a batch made before. Prints
// what bench/measure.py prints; an item is 10^9 bytes, CPU that of both.
//
//   feed_transport [--seconds 2] [--windows 3] [--warmup 2] [--shm 1] [--float 1] [--write 1]
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "feed/client.h"
#include "feed/worker.h"

namespace {

using namespace stoker;

constexpr size_t kPixels = 224 * 224 * 3;
constexpr uint64_t kRows = 64;
constexpr uint64_t kAhead = 4;  // batches asked for and not yet taken
constexpr char kToken[] = "bench";

[[noreturn]] void fail(const std::string& what) {
  fprintf(stderr, "%s\n", what.c_str());
  exit(1);
}

struct Setting {
  double window_s = 2, warmup_s = 2;
  int windows = 3;
  bool shm = false, floats = false, write = false;
  int child_fd = -1;  // this process is the child of one that measures
  size_t row() const { return kPixels * (floats ? 4 : 1); }
};

class Stamp : public pipeline::Producer {
 public:
  explicit Stamp(const Setting& setting) : row_(setting.row()) {
    auto dtype = setting.floats ? pipeline::DType::kFloat32 : pipeline::DType::kUint8;
    layout_.leaves = {{"image", dtype, {224, 224, 3}, row_}};
    if (!setting.write) return;
    made_.resize(kRows * row_);
    for (size_t i = 0; i < made_.size(); ++i) made_[i] = static_cast<uint8_t>(i * 2654435761U >> 13);
  }
  const pipeline::RowLayout& layout() const override { return layout_; }
  uint64_t items() const override { return uint64_t{1} << 40; }
  Status produce(pipeline::SampleRef ref, std::span<uint8_t* const> rows, pipeline::Scratch&) const override {
    if (!made_.empty()) std::memcpy(rows[0], made_.data() + ref.item % kRows * row_, row_);
    store_le(rows[0], ref.position);
    return ok();
  }

 private:
  size_t row_;
  pipeline::RowLayout layout_;
  std::vector<uint8_t> made_;
};

std::unique_ptr<feed::Worker> open_worker(feed::WorkerOptions options, const Setting& setting) {
  options.open_native = [setting](const std::string&,
                                  ByteView) -> Result<std::unique_ptr<pipeline::Producer>> {
    return std::unique_ptr<pipeline::Producer>(std::make_unique<Stamp>(setting));
  };
  auto worker = feed::Worker::open(std::move(options));
  if (!worker.ok()) fail(worker.error().message);
  return std::move(worker).value();
}

// Serves until the parent ends; says its address on `out`.
[[noreturn]] void serve(int out, const Setting& setting) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  feed::WorkerOptions options;
  options.listen = "127.0.0.1:0";
  options.token = kToken;
  auto worker = open_worker(std::move(options), setting);
  const std::string address = worker->address();
  if (write(out, address.data(), address.size()) < 0) fail("pipe");
  close(out);
  worker->run();
  _exit(0);
}

int serve_parent(const Setting& setting) {
  feed::WorkerOptions options;
  options.child_fd = setting.child_fd;
  options.threads = 1;
  open_worker(std::move(options), setting)->run();
  return 0;
}

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

// Batches in order, always kAhead of them asked for.
class Stream {
 public:
  Stream(feed::Client& client, size_t row) : client_(client), row_(row) {}

  void take() {
    for (; pushed_ < taken_ + kAhead; ++pushed_) {
      std::vector<feed::Ref> refs;
      for (uint64_t i = 0; i < kRows; ++i) refs.push_back({pushed_ * kRows + i, pushed_ * kRows + i});
      if (auto status = client_.push(pushed_, std::move(refs)); !status.ok()) fail(status.error().message);
    }
    auto next = client_.next(monotonic_ns() + 10'000'000'000);
    if (auto* error = std::get_if<feed::NextError>(&next)) fail(error->fault.error.message);
    const auto& batch = std::get<feed::Batch>(next);
    const uint8_t* last = batch.slot->bytes().data() + (kRows - 1) * row_;
    if (load_le<uint64_t>(last) != taken_ * kRows + kRows - 1) fail("a row of another position");
    ++taken_;
  }

 private:
  feed::Client& client_;
  const size_t row_;
  uint64_t pushed_ = 0, taken_ = 0;
};

Setting parse(int argc, char** argv) {
  Setting setting;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const double value = atof(argv[i + 1]);
    if (name == "--seconds") setting.window_s = value;
    if (name == "--windows") setting.windows = static_cast<int>(value);
    if (name == "--warmup") setting.warmup_s = value;
    if (name == "--shm") setting.shm = value != 0;
    if (name == "--float") setting.floats = value != 0;
    if (name == "--write") setting.write = value != 0;
    if (name == "--fd") setting.child_fd = static_cast<int>(value);
  }
  return setting;
}

// Of this process and of the one that makes rows, which is `child` or the client's own.
class Cpu {
 public:
  Cpu(feed::Client& client, pid_t child) : client_(client), child_(child) {}
  static double trainer() { return seconds(CLOCK_PROCESS_CPUTIME_ID); }
  double operator()() const {
    double own = trainer();
    if (child_ < 0) return own + static_cast<double>(client_.stats().children_cpu_ns) * 1e-9;
    clockid_t clock;
    clock_getcpuclockid(child_, &clock);
    return own + seconds(clock);
  }

 private:
  feed::Client& client_;
  pid_t child_;
};

pid_t start_worker(const Setting& setting, std::string& address) {
  int ends[2];
  if (pipe(ends) != 0) fail("pipe");
  const pid_t child = fork();
  if (child == 0) serve(ends[1], setting);
  close(ends[1]);
  char text[64] = {};
  if (child < 0 || read(ends[0], text, sizeof text - 1) <= 0) fail("the worker did not start");
  address = text;
  return child;
}

}  // namespace

int main(int argc, char** argv) {
  const Setting setting = parse(argc, argv);
  if (setting.child_fd >= 0) return serve_parent(setting);

  feed::ClientOptions options;
  options.plan = R"({"format":"stoker-plan/1","kind":"native"})";
  pid_t child = -1;
  if (setting.shm) {
    wire::ChildCommand command;
    command.argv = {"/proc/self/exe", "--float", setting.floats ? "1" : "0", "--write",
                    setting.write ? "1" : "0"};
    options.children = {command};
  } else {
    std::string address;
    child = start_worker(setting, address);
    options.workers = {address};
    options.token = kToken;
  }
  auto client = feed::Client::open(std::move(options));
  if (!client.ok()) fail(client.error().message);
  Stream stream(*client.value(), setting.row());
  Cpu cpu(*client.value(), child);
  const double begin = seconds(CLOCK_MONOTONIC);
  do stream.take();
  while (seconds(CLOCK_MONOTONIC) - begin < setting.warmup_s);

  double items = 0, least_cpu = 1e9, least_wall = 1e9, least_trainer = 1e9;
  for (int window = 0; window < setting.windows; ++window) {
    const double start = seconds(CLOCK_MONOTONIC), start_cpu = cpu(), start_trainer = Cpu::trainer();
    double gigabytes = 0, wall = 0;
    while (wall < setting.window_s) {
      stream.take();
      gigabytes += static_cast<double>(kRows * setting.row()) / 1e9;
      wall = seconds(CLOCK_MONOTONIC) - start;
    }
    items += gigabytes;
    least_cpu = std::min(least_cpu, (cpu() - start_cpu) / gigabytes);
    least_trainer = std::min(least_trainer, (Cpu::trainer() - start_trainer) / gigabytes);
    least_wall = std::min(least_wall, wall / gigabytes);
  }
  client.value()->close();
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  rusage self, other;
  getrusage(RUSAGE_SELF, &self);
  getrusage(RUSAGE_CHILDREN, &other);
  printf(
      "{\"items\": %.3f, \"cpu_s_per_item\": %.4f, \"wall_s_per_item\": %.4f, \"rss_mb\": %ld, "
      "\"note\": \"%.4f s of it in the trainer; rows %s\"}\n",
      items, least_cpu, least_wall, (self.ru_maxrss + other.ru_maxrss) / 1024, least_trainer,
      setting.write ? "copied from a batch made before" : "not made");
  return 0;
}
