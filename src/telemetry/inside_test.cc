// SPDX-License-Identifier: Apache-2.0
#include "telemetry/inside.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.h"
#include "base/test_folder.h"

namespace stoker::telemetry {
namespace {

TEST(Inside, AControlGroupNamesTheInstance) {
  EXPECT_EQ(instance_in("9:name=systemd:/\n1:cpu:/stoker/job.algo-1\n0::/\n"), "job.algo-1");
  EXPECT_EQ(instance_in("0::/stoker/job.algo-1/user\n"), "job.algo-1");
  EXPECT_EQ(instance_in("0::/stoker/job.algo-1/user/its-own\n"), "job.algo-1");
  EXPECT_EQ(instance_in("4:cpu:/docker/0123/stoker/job.algo-1\n"), "job.algo-1");
  for (const char* outside : {"", "nonsense", "0::/", "0::/stokers/x", "1:cpu:/stoker"})
    EXPECT_EQ(instance_in(outside), "") << outside;
}

TEST(Inside, WeAreInNoneAndWhoIsGoneIsUnknown) {
  EXPECT_EQ(*instance_of(::getpid()), "");
  EXPECT_FALSE(instance_of(1 << 30).ok());
}

// A socket that a child connects; this process holds both ends, as a job's process that hands them on does.
class Peer : public testing::Test {
 protected:
  void SetUp() override {
    sockaddr_un address{AF_UNIX, {}};
    (own_.path() + "/s").copy(address.sun_path, sizeof address.sun_path - 1);
    const auto* at = reinterpret_cast<const sockaddr*>(&address);
    listening_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    asking_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(listening_.get(), at, sizeof address), 0);
    ASSERT_EQ(listen(listening_.get(), 1), 0);
    child_ = fork();
    if (child_ == 0) {
      if (connect(asking_.get(), at, sizeof address) != 0) _exit(1);
      for (;;) pause();
    }
    accepted_.reset(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(accepted_);
  }
  void TearDown() override { reap(); }
  void end_child() {  // and leave it a zombie
    kill(child_, SIGKILL);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT);
  }
  void reap() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }
  TestFolder own_;
  UniqueFd listening_, asking_, accepted_;
  pid_t child_ = 0;
};

TEST_F(Peer, AsksWhileItLives) {
  auto instance = instance_of_peer(accepted_.get());
  ASSERT_TRUE(instance.ok()) << instance.error().message;
  EXPECT_EQ(*instance, "");
}

TEST_F(Peer, ThatHasEndedIsRefusedBeforeItIsReapedAndAfter) {
  end_child();
  auto zombie = instance_of_peer(accepted_.get());
  ASSERT_FALSE(zombie.ok());
  EXPECT_EQ(zombie.error().code, Code::kDenied);
  reap();
  auto gone = instance_of_peer(accepted_.get());
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().code, Code::kDenied);
}

// A job's processes use up the numbers until a process outside has the one that connected.
TEST_F(Peer, IsNotWhoeverHasItsNumberAfterIt) {
  const pid_t number = child_;
  int fd = -1;
  socklen_t size = sizeof fd;
  if (getsockopt(accepted_.get(), SOL_SOCKET, 77 /* SO_PEERPIDFD */, &fd, &size) != 0)
    GTEST_SKIP() << "this kernel gives no descriptor of the process that connected (before 6.5)";
  close(fd);
  reap();
  pid_t other = 0;
  for (int tries = 0; other != number && tries < 200; tries++) {
    auto last = open_file("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    if (!last.ok() || !write_all(last->get(), as_bytes(std::to_string(number - 1))).ok())
      GTEST_SKIP() << "may not choose numbers of processes";
    other = fork();
    if (other == 0) {
      for (;;) pause();
    }
    if (other == number) break;
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
  }
  if (other != number) GTEST_SKIP() << "the number went to somebody else";
  child_ = other;
  auto instance = instance_of_peer(accepted_.get());
  ASSERT_FALSE(instance.ok());
  EXPECT_EQ(instance.error().code, Code::kDenied);
}

TEST_F(Peer, IsNotSaidToBeOfAJobWhereDescriptorsRunOut) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  auto instance = instance_of_peer(accepted_.get());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(instance.ok());
  EXPECT_EQ(instance.error().code, Code::kUnavailable) << instance.error().message;
}

}  // namespace
}  // namespace stoker::telemetry
