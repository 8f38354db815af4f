// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "wire/acceptor.h"
#include "wire/child.h"
#include "wire/link.h"
#include "wire/slots.h"
#include "wire/tcp.h"

namespace stoker::wire {
namespace {
constexpr int64_t kSecond = 1'000'000'000;

std::unique_ptr<Loop> make_loop() {
  auto loop = Loop::make();
  CHECK(loop.ok());
  (*loop)->at(monotonic_ns() + 20 * kSecond, [raw = loop->get()] {
    ADD_FAILURE() << "nothing happened for 20 s";
    raw->stop();
  });
  return std::move(loop).value();
}

TEST(Overlap, SecondsInWhichSeveralWaitCountOnce) {
  Overlap waits;
  waits.begin(10);
  waits.begin(12);
  waits.end(15);
  EXPECT_EQ(waits.total_ns(18), 8);
  waits.end(20);
  EXPECT_EQ(waits.total_ns(30), 10);
  waits.begin(40);
  EXPECT_EQ(waits.total_ns(41), 11);
}

TEST(Slots, AreUsedAgainWhenTheLastOwnerGoes) {
  auto pool = SlotPool::make(true, 1 << 20);
  SlotRef first = *pool->take(10000);
  uint64_t id = first->id();
  SlotRef view = first;
  first.reset();
  EXPECT_NE((*pool->take(10000))->id(), id);
  view.reset();
  EXPECT_EQ((*pool->take(10000))->id(), id);
  EXPECT_TRUE(pool->take_gone().empty());
}

TEST(Slots, KeptOnesNeverBlockAndLoseTheirDescriptors) {
  auto pool = SlotPool::make(true, 64 << 10);
  std::vector<SlotRef> kept;
  for (size_t i = 0; i < SlotPool::kKeepDescriptors + 10; ++i) {
    kept.push_back(*pool->take(4096));
    pool->hand_over(*kept.back());
  }
  EXPECT_GE(kept.front()->descriptor(), 0);
  EXPECT_EQ(kept.back()->descriptor(), -1);
  uint64_t last = kept.back()->id();
  kept.clear();
  EXPECT_THAT(pool->take_gone(), testing::Contains(last));
  EXPECT_LE(pool->bytes_held(), 64u << 10);
}

TEST(Slots, MemoryOutlivesThePool) {
  auto pool = SlotPool::make(false, 1 << 20);
  SlotRef slot = *pool->take(100);
  pool.reset();
  slot->bytes()[0] = 7;
  EXPECT_EQ(slot->bytes()[0], 7);
}

// Puts payloads where they belong and remembers what came.
struct Receiver : LinkHandler {
  Loop& loop;
  std::vector<uint8_t> rows = std::vector<uint8_t>(3 << 20);
  std::vector<uint64_t> hashes;
  std::vector<uint8_t> small;
  UniqueFd descriptor;
  std::string closed;
  int frames = 0, wanted = 1;
  explicit Receiver(Loop& loop) : loop(loop) {}
  Result<std::vector<Piece>> on_header(Link&, const Header& header) override {
    if (header.type == 1) return std::vector<Piece>{};
    if (header.length > rows.size()) return invalid("too long");
    uint64_t half = header.length / 2;
    return std::vector<Piece>{{rows.data(), half, true},
                              {nullptr, 1000, true},
                              {rows.data() + half, header.length - half - 1000, true}};
  }
  Status on_frame(Link& link, const Header&, std::span<const uint64_t> got) override {
    hashes.assign(got.begin(), got.end());
    small.assign(link.payload().begin(), link.payload().end());
    if (auto fd = link.take_descriptor()) descriptor = std::move(fd);
    if (++frames == wanted) loop.stop();
    return ok();
  }
  void on_closed(Link&, const Error& error) override {
    closed = error.message;
    loop.stop();
  }
};

struct Pair {
  std::shared_ptr<Link> near, far;
  Pair(Loop& loop, LinkKind kind, LinkHandler& a, LinkHandler& b) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    near = *Link::start(loop, UniqueFd(fds[0]), kind, a);
    far = *Link::start(loop, UniqueFd(fds[1]), kind, b);
  }
};

TEST(Link, PayloadGoesIntoPlaceAndIsHashed) {
  auto loop = make_loop();
  Receiver a(*loop), b(*loop);
  Pair pair(*loop, LinkKind::kTcp, a, b);
  auto bytes = std::make_shared<std::vector<uint8_t>>(2 << 20);
  for (size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = static_cast<uint8_t>(i * 7 >> 5);
  Header header;
  header.type = 2;
  pair.near->send(header, {}, {ByteView(*bytes)}, bytes);
  loop->run();
  size_t half = bytes->size() / 2;
  EXPECT_EQ(b.hashes[0], block_hash(ByteView(*bytes).first(half)));
  EXPECT_EQ(b.hashes[1], 0u);  // thrown away
  EXPECT_EQ(b.hashes[2], block_hash(ByteView(*bytes).subspan(half + 1000)));
  EXPECT_TRUE(std::equal(bytes->begin(), bytes->begin() + static_cast<ptrdiff_t>(half), b.rows.begin()));
  EXPECT_EQ(pair.near->unsent(), 0u);
}

TEST(Link, DescriptorComesWithItsFrame) {
  auto loop = make_loop();
  Receiver a(*loop), b(*loop);
  b.wanted = 2;
  Pair pair(*loop, LinkKind::kLocal, a, b);
  auto memory = make_memfd("test", 4096);
  Header header;
  header.type = 1;
  pair.near->send(header, {1, 2, 3});
  pair.near->send(header, {4}, {}, {}, std::move(*memory));
  loop->run();
  ASSERT_TRUE(b.descriptor);
  struct stat st;
  ASSERT_EQ(fstat(b.descriptor.get(), &st), 0);
  EXPECT_EQ(st.st_size, 4096);
}

TEST(Link, RefusedHeaderEndsIt) {
  auto loop = make_loop();
  Receiver a(*loop), b(*loop);
  Pair pair(*loop, LinkKind::kTcp, a, b);
  Header header;
  header.type = 2;
  pair.near->send(header, std::vector<uint8_t>(4 << 20));
  loop->run();
  EXPECT_EQ(b.closed, "too long");
  EXPECT_TRUE(pair.far->closed());
}

TEST(Child, EndsAreTold) {
  auto loop = make_loop();
  std::string how;
  auto child = Child::start(*loop, {{"/bin/sh", "-c", "echo last words >&2; exit 5"}, {}, 0},
                            [&](const std::string& text) {
                              how = text;
                              loop->stop();
                            });
  ASSERT_TRUE(child.ok());
  loop->run();
  EXPECT_EQ(how, "exit status 5");
  EXPECT_EQ((*child)->last_lines(), "last words");
}

TEST(Child, IsKilledAndReapedByItsOwner) {
  auto loop = make_loop();
  auto child = Child::start(*loop, {{"/bin/sh", "-c", "exec sleep 1000"}, {}, 0}, nullptr);
  ASSERT_TRUE(child.ok());
  int pid = (*child)->pid();
  EXPECT_NE((*child)->kill_and_reap().find("signal 9"), std::string::npos);
  EXPECT_NE(kill(pid, 0), 0);
}

TEST(Child, ThatCannotStartIsAnErrorAtOnce) {
  auto loop = make_loop();
  auto child = Child::start(*loop, {{"/no/such/program"}, {}, 0}, nullptr);
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code, Code::kNotFound);
}

TEST(Tcp, LoopbackIsNotPaced) {
  auto listener = listen_tcp({"127.0.0.1", 0});
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(congestion_control(listener->get()), "reno");
  auto socket = start_connecting_tcp(*local_address(listener->get()));
  ASSERT_TRUE(socket.ok());
  EXPECT_EQ(congestion_control(socket->get()), "reno");
}

TEST(Acceptor, WithoutDescriptorsWaitsWithoutSpinningThenTakes) {
  auto loop = make_loop();
  auto listener = listen_tcp({"127.0.0.1", 0});
  ASSERT_TRUE(listener.ok());
  auto caller = start_connecting_tcp(*local_address(listener->get()));
  ASSERT_TRUE(caller.ok());
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  rlimit none = limit;
  none.rlim_cur = 0;
  int taken = 0;
  Acceptor acceptor(*loop, "test", [&](UniqueFd) {
    ++taken;
    loop->stop();
  });
  ASSERT_TRUE(acceptor.start(std::move(*listener)).ok());
  // UBSan looks through a pipe whether an object's type can be read, and remembers those that it has seen.
  system_clock().wall_ms();
  setrlimit(RLIMIT_NOFILE, &none);
  int64_t began = monotonic_ns(), cpu = thread_cpu_ns();
  loop->at(began + 500'000'000, [&] { setrlimit(RLIMIT_NOFILE, &limit); });
  loop->run();
  EXPECT_EQ(taken, 1);
  EXPECT_LT(thread_cpu_ns() - cpu, (monotonic_ns() - began) / 4);
}

TEST(Tcp, Addresses) {
  EXPECT_EQ(*parse_address("algo-1:7170"), (Address{"algo-1", 7170}));
  EXPECT_EQ(*parse_address("[::1]:7"), (Address{"::1", 7}));
  EXPECT_FALSE(parse_address("algo-1").ok());
  EXPECT_FALSE(parse_address("a:70000").ok());
  EXPECT_FALSE(parse_address("a:7x").ok());
}

}  // namespace
}  // namespace stoker::wire
