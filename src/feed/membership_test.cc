// SPDX-License-Identifier: Apache-2.0
#include "feed/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feed/protocol.h"

namespace stoker::feed {
namespace {
using testing::ElementsAre;
using testing::IsEmpty;
using Peers = std::vector<Membership::PeerId>;
constexpr int64_t kSecond = 1'000'000'000;

struct Fixture : testing::Test {
  void connect(Membership::PeerId peer) {
    membership.connected(peer, now);
    membership.proven(peer, now);
  }
  Membership::Actions register_worker(Membership::PeerId peer, const std::string& address) {
    return membership.registered(peer, {address, 2, 0}, now);
  }
  std::vector<std::string> addresses() {
    std::vector<std::string> out;
    for (const auto& worker : membership.workers()) out.push_back(worker.address);
    return out;
  }
  // Time passes as it does: in ticks, while the peers named say something.
  Membership::Actions pass(int64_t seconds, const Peers& talkers) {
    Membership::Actions all;
    for (int64_t end = now + seconds * kSecond; now < end;) {
      now += Membership::kTickNs;
      for (auto peer : talkers) membership.heard(peer, now);
      auto actions = membership.tick(now);
      all.tell.insert(all.tell.end(), actions.tell.begin(), actions.tell.end());
      all.let_go.insert(all.let_go.end(), actions.let_go.begin(), actions.let_go.end());
    }
    return all;
  }
  int64_t now = 0;
  Membership membership{0};
};
struct MembershipTest : Fixture {};

TEST_F(MembershipTest, SubscribersAreToldAtEachChange) {
  connect(1);
  EXPECT_THAT(membership.subscribed(1, now).tell, ElementsAre(1));
  EXPECT_THAT(membership.subscribed(1, now).tell, IsEmpty());  // said again, with how its loop fares
  connect(2);
  EXPECT_THAT(register_worker(2, "a:1").tell, ElementsAre(1));
  EXPECT_THAT(register_worker(2, "a:1").tell, IsEmpty());  // a heartbeat
  EXPECT_THAT(addresses(), ElementsAre("a:1"));
  EXPECT_THAT(membership.gone(2).tell, ElementsAre(1));
  EXPECT_THAT(addresses(), IsEmpty());
  EXPECT_EQ(membership.view(), 2u);
}

TEST_F(MembershipTest, WorkerThatCameBackStaysWhenItsOldConnectionEnds) {
  connect(1);
  register_worker(1, "a:1");
  connect(2);
  EXPECT_THAT(register_worker(2, "a:1").tell, IsEmpty());
  EXPECT_THAT(membership.gone(1).tell, IsEmpty());
  EXPECT_THAT(addresses(), ElementsAre("a:1"));
  membership.gone(2);
  EXPECT_THAT(addresses(), IsEmpty());
}

TEST_F(MembershipTest, WorkerThatMovesIsNotListedTwice) {
  connect(1);
  register_worker(1, "a:1");
  register_worker(1, "a:2");
  EXPECT_THAT(addresses(), ElementsAre("a:2"));
}

TEST_F(MembershipTest, SilentPeersAreLetGo) {
  connect(1);
  membership.subscribed(1, now);
  connect(2);
  register_worker(2, "a:1");
  connect(3);
  membership.subscribed(3, now);
  auto actions = pass(11, {1});
  EXPECT_THAT(actions.let_go, ElementsAre(2, 3));
  EXPECT_THAT(actions.tell, ElementsAre(1));
  EXPECT_THAT(addresses(), IsEmpty());
  EXPECT_EQ(membership.peers(), 1u);
}

TEST_F(MembershipTest, UnprovenPeersAreLetGoSooner) {
  membership.connected(1, now);
  EXPECT_THAT(pass(6, {1}).let_go, ElementsAre(1));
}

// Stopped for a minute and continued, a dispatcher used to tell everybody that no worker was left.
TEST_F(MembershipTest, OwnPauseIsNobodysSilence) {
  connect(1);
  membership.subscribed(1, now);
  connect(2);
  register_worker(2, "a:1");
  now += 60 * kSecond;
  auto actions = membership.tick(now);
  EXPECT_THAT(actions.let_go, IsEmpty());
  EXPECT_THAT(addresses(), ElementsAre("a:1"));
  EXPECT_THAT(pass(11, {1}).let_go, ElementsAre(2));
}

}  // namespace
}  // namespace stoker::feed
