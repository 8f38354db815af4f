// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include "agent/process.h"
#include "agent/steps/steps.h"
#include "agent/test_job.h"

namespace stoker::agent {
namespace {

TEST(NetworkStep, RulesForEgressGoWithTheJob) {
  NEEDS_ROOT();
  TestJob job;
  job.assignment.network.isolated = false;
  job.script("print(open('/proc/net/route').read().count('00000000'))");
  job.run_to_exit();
  EXPECT_EQ(job.leftovers(), "");
  std::string iptables = find_program("iptables-save");
  if (iptables.empty()) return;
  UniqueFd out(open((job.root() + "/rules").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(run_command({{iptables}, {}, "/", "", out.get()}).ok());
  EXPECT_EQ(read_text(job.root() + "/rules")->find(job.assignment.network.bridge), std::string::npos);
}

TEST(NetworkStep, NoWayOutIsNoNoticeOfOneThatIsToldToEnd) {
  NEEDS_ROOT();
  for (const bool told : {false, true}) {
    TestJob job;
    job.assignment.network.isolated = false;
    job.assignment.network.address = "none";  // so that no way out can be opened
    if (told) job.stop.request({});
    Instance instance(job.assignment, job.events, job.stop, "");
    auto network = network_step();
    EXPECT_TRUE(network->run(instance).ok());
    (void)network->undo(instance);  // waits for it
    EXPECT_EQ(job.events.find<Notice>().has_value(), !told) << job.events.text();
    EXPECT_EQ(job.leftovers(), "");
  }
}

}  // namespace
}  // namespace stoker::agent
