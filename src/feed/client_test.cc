// SPDX-License-Identifier: Apache-2.0
// Client and worker over loopback TCP, in one process, with a synthetic producer.
#include "feed/client.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <set>
#include <thread>

#include "base/clock.h"
#include "feed/dispatcher.h"
#include "feed/slow_wire.h"
#include "feed/worker.h"

namespace stoker::feed {
namespace {
constexpr int64_t kSecond = 1'000'000'000;

// A gate that tests close to make a worker hang, and open again.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = true;
  void set(bool to) {
    std::lock_guard lock(mutex);
    open = to;
    changed.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
  }
};

struct FakeBehaviour {
  Gate gate;
  std::atomic<int> asked = 0;
  std::atomic<int> made = 0;
  std::set<uint64_t> bad_items;
  std::set<uint64_t> unreadable_items;  // here
  std::atomic<uint8_t> twist = 0;       // makes this worker's samples differ
  size_t row_bytes = 300 << 10;
};

class FakeProducer : public pipeline::Producer {
 public:
  explicit FakeProducer(std::shared_ptr<FakeBehaviour> behaviour) : behaviour_(std::move(behaviour)) {
    layout_.leaves = {{"image",
                       pipeline::DType::kUint8,
                       {static_cast<int64_t>(behaviour_->row_bytes)},
                       behaviour_->row_bytes},
                      {"label", pipeline::DType::kInt64, {}, 8}};
  }
  const pipeline::RowLayout& layout() const override { return layout_; }
  uint64_t items() const override { return 1 << 30; }
  Status produce(Ref ref, std::span<uint8_t* const> rows, pipeline::Scratch&) const override {
    ++behaviour_->asked;
    behaviour_->gate.pass();
    ++behaviour_->made;
    if (behaviour_->bad_items.count(ref.item))
      return Error{Code::kData, "item " + std::to_string(ref.item) + " is damaged",
                   DataFault{"corrupt", "/x.jpg", 7}};
    if (behaviour_->unreadable_items.count(ref.item)) return unavailable("cannot be read here");
    for (size_t i = 0; i < behaviour_->row_bytes; i += 8)
      store_le(rows[0] + i, ref.position * 0x9E3779B97F4A7C15u + ref.item + i + behaviour_->twist);
    store_le(rows[1], static_cast<int64_t>(ref.item));
    return ok();
  }

 private:
  std::shared_ptr<FakeBehaviour> behaviour_;
  pipeline::RowLayout layout_;
};

struct RunningWorker {
  std::shared_ptr<FakeBehaviour> behaviour = std::make_shared<FakeBehaviour>();
  std::unique_ptr<Worker> worker;
  std::thread thread;

  explicit RunningWorker(const std::string& token = "secret", const std::string& listen = "127.0.0.1:0",
                         std::vector<std::string> dispatchers = {}, uint64_t budget = 64 << 20,
                         int threads = 2) {
    WorkerOptions options;
    options.listen = listen;
    options.token = token;
    options.threads = threads;
    options.dispatchers = std::move(dispatchers);
    options.budget_bytes = budget;
    options.open_native = [b = behaviour](const std::string&,
                                          ByteView) -> Result<std::unique_ptr<pipeline::Producer>> {
      return std::unique_ptr<pipeline::Producer>(std::make_unique<FakeProducer>(b));
    };
    auto opened = Worker::open(std::move(options));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    worker = std::move(opened).value();
    thread = std::thread([this] { worker->run(); });
  }
  ~RunningWorker() { kill(); }
  void kill() {
    if (!worker) return;
    behaviour->gate.set(true);
    worker->stop();
    thread.join();
    worker.reset();
  }
  // Once it has drained.
  void leave() {
    thread.join();
    worker.reset();
  }
  std::string address() { return worker->address(); }
};

ClientOptions options_for(std::vector<std::string> workers) {
  ClientOptions options;
  options.plan = R"({"kind":"native"})";
  options.workers = std::move(workers);
  options.token = "secret";
  options.window_bytes = 24 << 20;
  options.timeout_ms = 3000;
  return options;
}

std::vector<Ref> batch_refs(uint64_t batch, uint64_t size = 8) {
  std::vector<Ref> refs;
  for (uint64_t i = 0; i < size; ++i) refs.push_back({batch * size + i, (batch * size + i) * 7 % 1000});
  return refs;
}

void check_batch(const Batch& batch, uint64_t number) {
  ASSERT_EQ(batch.id, number);
  ASSERT_EQ(batch.refs, batch_refs(number));
  for (uint64_t row = 0; row < batch.rows; ++row) {
    const uint8_t* base = batch.slot->bytes().data();
    ASSERT_EQ(load_le<int64_t>(base + batch.leaf_offsets[1] + 8 * row),
              static_cast<int64_t>(batch.refs[row].item));
    ASSERT_EQ(load_le<uint64_t>(base + row * batch.layout.leaves[0].row_bytes + 800),
              batch.refs[row].position * 0x9E3779B97F4A7C15u + batch.refs[row].item + 800);
  }
}

// Reads `count` batches, keeping some pushed ahead; `at` is called before each batch is read.
template <typename At>
std::string read_all(Client& client, uint64_t count, At at, uint64_t ahead = 12) {
  uint64_t pushed = 0;
  for (uint64_t i = 0; i < count; ++i) {
    for (; pushed < std::min(count, i + ahead); ++pushed)
      EXPECT_TRUE(client.push(pushed, batch_refs(pushed)).ok());
    at(i);
    auto got = client.next(monotonic_ns() + 20 * kSecond);
    if (auto* error = std::get_if<NextError>(&got)) {
      ADD_FAILURE() << "batch " << i << ": " << error->fault.error.message;
      return "";
    }
    check_batch(std::get<Batch>(got), i);
    if (testing::Test::HasFatalFailure()) return "";
  }
  ClientStats stats = client.stats();
  EXPECT_TRUE(stats.in_order);
  EXPECT_EQ(stats.batches, count);
  return stats.digest;
}

template <typename Condition>
void wait_until(Condition holds) {
  int64_t deadline = monotonic_ns() + 20 * kSecond;
  while (!holds()) {
    ASSERT_LT(monotonic_ns(), deadline);
    std::this_thread::yield();
  }
}

void wait_ready(Client& client, size_t count) {
  wait_until([&] {
    size_t ready = 0;
    for (const EndpointStats& one : client.stats().endpoints) ready += one.ready;
    return ready >= count;
  });
}

std::string digest_with(size_t workers, uint64_t count = 40) {
  std::vector<std::unique_ptr<RunningWorker>> running;
  std::vector<std::string> addresses;
  for (size_t i = 0; i < workers; ++i) {
    running.push_back(std::make_unique<RunningWorker>());
    addresses.push_back(running.back()->address());
  }
  auto client = Client::open(options_for(addresses));
  EXPECT_TRUE(client.ok());
  return read_all(**client, count, [](uint64_t) {});
}

const std::string& reference_digest() {
  static const std::string digest = digest_with(1);
  return digest;
}

struct RunningDispatcher {
  std::unique_ptr<Dispatcher> dispatcher = Dispatcher::open({"127.0.0.1:0", "secret"}).value();
  std::thread thread{[this] { dispatcher->run(); }};
  ~RunningDispatcher() {
    dispatcher->stop();
    thread.join();
  }
};

// More workers shorten the one, not the other.
TEST(Client, WaitBehindOthersIsALackOfWorkersAndWaitAfterNothingIsNot) {
  RunningWorker worker;
  auto opened = Client::open(options_for({worker.address()}));
  ASSERT_TRUE(opened.ok());
  Client& client = **opened;
  auto wait = [&](int64_t ns) { return client.next(monotonic_ns() + ns); };
  auto take = [&](uint64_t number) {
    auto got = wait(10 * kSecond);
    ASSERT_TRUE(std::holds_alternative<Batch>(got));
    check_batch(std::get<Batch>(got), number);
  };
  worker.behaviour->gate.set(false);
  ASSERT_TRUE(client.push(0, batch_refs(0)).ok());
  ASSERT_TRUE(std::holds_alternative<NextError>(wait(kSecond / 50)));
  EXPECT_EQ(client.stats().wait_ns, 0);
  EXPECT_EQ(client.stats().since_first_ns, 0);
  worker.behaviour->gate.set(true);
  take(0);
  ASSERT_TRUE(client.push(1, batch_refs(1)).ok());
  ASSERT_TRUE(client.push(2, batch_refs(2)).ok());
  take(1);
  while (client.stats().ready == 0) std::this_thread::yield();
  worker.behaviour->gate.set(false);
  const int64_t before = client.stats().wait_ns;
  ASSERT_TRUE(client.push(3, batch_refs(3)).ok());
  take(2);
  EXPECT_EQ(client.stats().wait_ns, before);
  ASSERT_TRUE(std::holds_alternative<NextError>(wait(kSecond / 50)));
  EXPECT_GE(client.stats().wait_ns, before + kSecond / 100);
  EXPECT_GT(client.stats().since_first_ns, client.stats().wait_ns);
  worker.behaviour->gate.set(true);
  take(3);
}

TEST(Client, OneWorkerFeedsTheGroupsOfTwoDispatchersAlsoWhenOneIsGone) {
  auto first = std::make_unique<RunningDispatcher>();
  RunningDispatcher second;
  RunningWorker worker("secret", "127.0.0.1:0", {first->dispatcher->address(), second.dispatcher->address()});
  auto fed_by = [](const RunningDispatcher& running) {
    ClientOptions options = options_for({});
    options.dispatcher = running.dispatcher->address();
    auto client = Client::open(options);
    EXPECT_TRUE(client.ok());
    return read_all(**client, 40, [](uint64_t) {});
  };
  EXPECT_EQ(fed_by(*first), reference_digest());
  first.reset();
  EXPECT_EQ(fed_by(second), reference_digest());
}

TEST(Client, DigestDoesNotDependOnTheNumberOfWorkers) {
  EXPECT_EQ(reference_digest().size(), 32u);
  EXPECT_EQ(digest_with(2), reference_digest());
  EXPECT_EQ(digest_with(7), reference_digest());
}

TEST(Client, WorkersMayDieAndJoin) {
  auto a = std::make_unique<RunningWorker>(), b = std::make_unique<RunningWorker>();
  std::string b_address = b->address();
  auto client = Client::open(options_for({a->address(), b_address}));
  std::string digest = read_all(**client, 40, [&](uint64_t i) {
    if (i == 5 || i == 20) wait_ready(**client, 2);
    if (i == 5) b->kill();
    if (i == 12) b = std::make_unique<RunningWorker>("secret", b_address);
    if (i == 20) a->kill();
  });
  EXPECT_EQ(digest, reference_digest());
  EXPECT_GE((*client)->stats().counts.lost, 2u);
}

TEST(Client, HangingWorkerIsHedged) {
  RunningWorker a, b;
  auto client = Client::open(options_for({a.address(), b.address()}));
  std::string digest = read_all(**client, 40, [&](uint64_t i) {
    if (i == 10) wait_ready(**client, 2);
    if (i == 10) b.behaviour->gate.set(false);
    if (i == 30) b.behaviour->gate.set(true);
  });
  EXPECT_EQ(digest, reference_digest());
  EXPECT_GT((*client)->stats().counts.hedged, 0u);
}

// A hedge's answer counts; the slow worker's comes all the same, since it never hears that it was cancelled.
TEST(Client, DisagreeingWorkersFailANativePlan) {
  RunningWorker a, b;
  b.behaviour->twist = 1;
  a.behaviour->gate.set(false);
  b.behaviour->gate.set(false);
  SlowWire wire(b.address());
  auto client = Client::open(options_for({a.address(), wire.address()}));
  wait_ready(**client, 2);
  uint64_t pushed = 0;
  for (; pushed < 12; ++pushed) ASSERT_TRUE((*client)->push(pushed, batch_refs(pushed)).ok());
  wait_until([&] { return b.behaviour->asked > 0; });
  wire.to_worker.hold();
  a.behaviour->gate.set(true);
  bool failed = false;
  int64_t deadline = monotonic_ns() + 20 * kSecond;
  while (!failed && monotonic_ns() < deadline) {
    ASSERT_TRUE((*client)->push(pushed, batch_refs(pushed)).ok());
    ++pushed;
    auto got = (*client)->next(deadline);
    if ((*client)->stats().counts.hedged > 0) b.behaviour->gate.set(true);
    if (auto* error = std::get_if<NextError>(&got)) {
      failed = true;
      EXPECT_NE(error->fault.error.message.find("different samples"), std::string::npos)
          << error->fault.error.message;
      EXPECT_TRUE(error->stream_over);
    }
  }
  EXPECT_TRUE(failed);
}

// Half of the slow answer's table of hashes is here when the hedge wins; its rows are of no use then, its
// table is.
TEST(Client, HedgeThatOvertakesATableIsNoDisagreement) {
  RunningWorker a, b;
  a.behaviour->gate.set(false);
  b.behaviour->gate.set(false);
  SlowWire wire(b.address());
  auto client = Client::open(options_for({a.address(), wire.address()}));
  std::string digest = read_all(**client, 60, [&](uint64_t i) {
    if (i == 0) {
      wait_until([&] { return a.behaviour->asked > 0 && b.behaviour->asked > 0; });
      wire.to_client.hold();
      b.behaviour->gate.set(true);
      wait_until([&] { return wire.to_client.pass_into(MessageType::kRows, 24); });
      a.behaviour->gate.set(true);
    }
    if (i == 40) wire.to_client.release();
  });
  EXPECT_EQ(digest.size(), 32u);
  EXPECT_GT((*client)->stats().counts.hedged, 0u);
  wait_until([&] { return (*client)->stats().counts.dropped > 0; });
  EXPECT_EQ((*client)->stats().disagreed, 0u);
  EXPECT_EQ((*client)->stats().counts.lost, 0u);
}

TEST(Client, ChildThatNeverOpensThePlanIsAnErrorInTheEnd) {
  ClientOptions options = options_for({});
  options.plan_ns = kSecond / 2;
  options.children = {{{"/bin/sh", "-c", "exec sleep 100"}, {}, 0}};
  auto client = std::move(*Client::open(std::move(options)));
  ASSERT_TRUE(client->push(0, batch_refs(0)).ok());
  auto got = client->next(monotonic_ns() + 20 * kSecond);
  auto* error = std::get_if<NextError>(&got);
  ASSERT_TRUE(error != nullptr);
  EXPECT_TRUE(error->stream_over);
  EXPECT_NE(error->fault.error.message.find("had not opened the data set"), std::string::npos)
      << error->fault.error.message;
}

TEST(Client, BadSampleIsNamedAndTheRestGoesOn) {
  RunningWorker a;
  a.behaviour->bad_items = {batch_refs(2)[3].item};
  auto client = Client::open(options_for({a.address()}));
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE((*client)->push(i, batch_refs(i)).ok());
  for (uint64_t i = 0; i < 5; ++i) {
    auto got = (*client)->next(monotonic_ns() + 20 * kSecond);
    if (i != 2) {
      ASSERT_TRUE(std::holds_alternative<Batch>(got)) << i;
      continue;
    }
    const NextError& error = std::get<NextError>(got);
    EXPECT_FALSE(error.stream_over);
    EXPECT_EQ(error.fault.position, batch_refs(2)[3].position);
    ASSERT_TRUE(error.fault.error.fault);
    EXPECT_EQ(error.fault.error.fault->kind, "corrupt");
    EXPECT_EQ(error.fault.error.fault->offset, 7);
    EXPECT_EQ(error.fault.json["worker"].as_string(), a.address());
  }
}

TEST(Client, FailedReadIsRetriedElsewhere) {
  RunningWorker a, b;
  for (uint64_t item = 0; item < 1000; ++item) a.behaviour->unreadable_items.insert(item);
  auto client = Client::open(options_for({a.address(), b.address()}));
  EXPECT_EQ(read_all(**client, 40, [](uint64_t) {}), reference_digest());
}

// That the stream is over, because of the token and not of the time without workers.
void expect_token_refused(Client& client) {
  ASSERT_TRUE(client.push(0, batch_refs(0)).ok());
  auto got = client.next(monotonic_ns() + 60 * kSecond);
  ASSERT_TRUE(std::holds_alternative<NextError>(got));
  const NextError& error = std::get<NextError>(got);
  EXPECT_TRUE(error.stream_over);
  EXPECT_EQ(error.fault.error.code, Code::kDenied) << error.fault.error.message;
  EXPECT_NE(error.fault.error.message.find("refuses the token"), std::string::npos)
      << error.fault.error.message;
  EXPECT_FALSE(error.fault.position) << "it is no sample's fault";
}

TEST(Client, TokenThatAllRefuseIsToldWithoutWaitingForOthers) {
  RunningWorker a("other"), b("another");
  auto options = options_for({a.address(), b.address()});
  options.timeout_ms = 3'600'000;
  auto client = Client::open(options);
  expect_token_refused(**client);
  EXPECT_EQ(a.behaviour->made + b.behaviour->made, 0);
}

TEST(Client, TokenThatTheDispatcherRefusesIsTold) {
  auto dispatcher = Dispatcher::open({"127.0.0.1:0", "other"});
  ASSERT_TRUE(dispatcher.ok());
  std::thread thread([&] { (*dispatcher)->run(); });
  auto options = options_for({});
  options.dispatcher = (*dispatcher)->address();
  options.timeout_ms = 3'600'000;
  auto client = Client::open(options);
  expect_token_refused(**client);
  (*dispatcher)->stop();
  thread.join();
}

TEST(Client, WorkersThatTakeTheTokenServeWhereAnotherRefusesIt) {
  RunningWorker a("other"), b;
  testing::internal::CaptureStderr();
  auto client = Client::open(options_for({a.address(), b.address()}));
  EXPECT_EQ(read_all(**client, 40, [](uint64_t) {}), reference_digest());
  std::string log;
  // The first refusal may be a worker that was just replaced; the second is told.
  for (int64_t end = monotonic_ns() + 20 * kSecond;
       log.find("refuses the token") == log.npos && monotonic_ns() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    log += testing::internal::GetCapturedStderr();
    testing::internal::CaptureStderr();
  }
  (*client)->close();
  log += testing::internal::GetCapturedStderr();  // it is dialled on, which is told no second time
  size_t first = log.find("refuses the token");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("refuses the token", first + 1), std::string::npos) << log;
  EXPECT_EQ(a.behaviour->made, 0);
}

TEST(Client, NobodyThereIsSaid) {
  auto options = options_for({"127.0.0.1:1"});
  options.timeout_ms = 300;
  auto client = Client::open(options);
  ASSERT_TRUE((*client)->push(0, batch_refs(0)).ok());
  auto got = (*client)->next(monotonic_ns() + 20 * kSecond);
  ASSERT_TRUE(std::holds_alternative<NextError>(got));
  EXPECT_TRUE(std::get<NextError>(got).stream_over);
  EXPECT_NE(std::get<NextError>(got).fault.error.message.find("refused"), std::string::npos);
}

TEST(Client, ProgramThatCannotBeStartedIsNamed) {
  ClientOptions options = options_for({});
  options.children = {{{"/nowhere/stoker", "feed-worker"}, {}, 0}};
  auto client = std::move(*Client::open(std::move(options)));
  ASSERT_TRUE(client->push(0, batch_refs(0)).ok());
  auto got = client->next(monotonic_ns() + 10 * kSecond);
  auto* error = std::get_if<NextError>(&got);
  ASSERT_TRUE(error != nullptr);
  EXPECT_TRUE(error->stream_over);
  EXPECT_NE(error->fault.error.message.find("/nowhere/stoker"), std::string::npos)
      << error->fault.error.message;
}

TEST(Client, SlowConsumerHoldsNoMoreThanTheWindow) {
  RunningWorker a("secret", "127.0.0.1:0", {}, 8 << 20);
  auto client = Client::open(options_for({a.address()}));
  for (uint64_t i = 0; i < 60; ++i) ASSERT_TRUE((*client)->push(i, batch_refs(i)).ok());
  wait_until([&] { return (*client)->stats().ready >= 8; });
  int made = a.behaviour->made;
  auto stats = (*client)->stats();
  EXPECT_LE(stats.slot_bytes, 48u << 20);
  EXPECT_LE(made, 10 * 8 + 8 * 8);
  for (uint64_t i = 0; i < 60; ++i) {
    auto got = (*client)->next(monotonic_ns() + 20 * kSecond);
    ASSERT_TRUE(std::holds_alternative<Batch>(got));
    check_batch(std::get<Batch>(got), i);
  }
}

TEST(Client, KeptBatchesDoNotBlock) {
  RunningWorker a;
  auto client = Client::open(options_for({a.address()}));
  std::vector<Batch> kept;
  for (uint64_t i = 0; i < 30; ++i) {
    ASSERT_TRUE((*client)->push(i, batch_refs(i)).ok());
    auto got = (*client)->next(monotonic_ns() + 20 * kSecond);
    ASSERT_TRUE(std::holds_alternative<Batch>(got));
    kept.push_back(std::move(std::get<Batch>(got)));
  }
  (*client)->close();
  for (uint64_t i = 0; i < 30; ++i) check_batch(kept[i], i);
}

TEST(Client, ClosesAtOnceWhileWorkIsOpen) {
  RunningWorker a;
  a.behaviour->gate.set(false);
  auto client = Client::open(options_for({a.address()}));
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE((*client)->push(i, batch_refs(i)).ok());
  int64_t began = monotonic_ns();
  (*client)->close();
  EXPECT_LT(monotonic_ns() - began, kSecond);
}

TEST(Client, DrainingWorkerFinishesWhatItHas) {
  auto a = std::make_unique<RunningWorker>();
  RunningWorker b;
  auto client = Client::open(options_for({a->address(), b.address()}));
  std::string digest = read_all(**client, 40, [&](uint64_t i) {
    if (i == 10) wait_ready(**client, 2);
    if (i == 10) a->worker->drain();
    if (i == 30) a->leave();
  });
  EXPECT_EQ(digest, reference_digest());
  wait_until([&] {
    const auto endpoints = (*client)->stats().endpoints;
    return std::count_if(endpoints.begin(), endpoints.end(), [](const auto& one) { return one.ready; }) == 1;
  });
  EXPECT_EQ((*client)->stats().counts.lost, 0u);
}

TEST(Client, ErrorNamesTheWorkerAsTheClientKnowsIt) {
  RunningWorker a("secret", "0.0.0.0:0");
  a.behaviour->bad_items = {batch_refs(0)[1].item};
  const std::string known = "127.0.0.1" + a.address().substr(a.address().rfind(':'));
  auto client = Client::open(options_for({known}));
  ASSERT_TRUE((*client)->push(0, batch_refs(0)).ok());
  auto got = (*client)->next(monotonic_ns() + 20 * kSecond);
  EXPECT_EQ(std::get<NextError>(got).fault.json["worker"].as_string(), known);
}

TEST(Client, AddressThatIsNoneIsRefusedAtOnce) {
  ClientOptions by_dispatcher = options_for({});
  by_dispatcher.dispatcher = "algo-1";
  for (const ClientOptions& options : {options_for({"127.0.0.1:99999"}), by_dispatcher}) {
    auto client = Client::open(options);
    ASSERT_FALSE(client.ok());
    EXPECT_NE(client.error().message.find("is not HOST:PORT"), std::string::npos) << client.error().message;
  }
}

// One thread, rows of which the socket takes any number: a loop that is a million batches ahead of another,
// with another plan or with the same.
TEST(Worker, LoopFarAheadIsNotStarvedByOneThatBegins) {
  for (const char* other_plan : {R"({"kind":"native","n":1})", R"({"kind":"native"})"}) {
    RunningWorker worker("secret", "127.0.0.1:0", {}, 64 << 20, 1);
    worker.behaviour->row_bytes = 1 << 10;
    auto ahead = Client::open(options_for({worker.address()}));
    auto options = options_for({worker.address()});
    options.plan = other_plan;
    auto begins = Client::open(options);
    std::atomic<bool> over = false;
    std::atomic<uint64_t> made = 0;
    constexpr uint64_t kFar = 1'000'000;
    worker.behaviour->gate.set(false);
    for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE((*begins)->push(i, batch_refs(i)).ok());
    for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE((*ahead)->push(kFar + i, batch_refs(kFar + i)).ok());
    std::thread flood([&] {
      for (uint64_t i = 40; !over; ++i) {
        ASSERT_TRUE((*begins)->push(i, batch_refs(i)).ok());
        auto got = (*begins)->next(monotonic_ns() + 20 * kSecond);
        ASSERT_TRUE(std::holds_alternative<Batch>(got));
        ++made;
      }
    });
    worker.behaviour->gate.set(true);
    for (uint64_t i = 0; i < 40; ++i) {
      auto got = (*ahead)->next(monotonic_ns() + 20 * kSecond);
      ASSERT_TRUE(std::holds_alternative<Batch>(got));
      EXPECT_EQ(std::get<Batch>(got).id, kFar + i);
    }
    over = true;
    flood.join();
    EXPECT_LT(made, 2000U) << other_plan;
  }
}

TEST(Worker, OptionsThatMeanNothingAreRefused) {
  WorkerOptions good;
  good.listen = "127.0.0.1:0";
  good.token = "secret";
  EXPECT_TRUE(Worker::open(good).ok());
  WorkerOptions dispatcher = good, advertise = good, cache = good;
  dispatcher.dispatchers = {"127.0.0.1:1", "algo-1"};
  advertise.advertise = "algo-1:x";
  cache.picture_cache.kind = "indices";
  for (const WorkerOptions& options : {dispatcher, advertise, cache})
    EXPECT_FALSE(Worker::open(options).ok());
}

}  // namespace
}  // namespace stoker::feed
