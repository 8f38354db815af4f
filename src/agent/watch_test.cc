// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "agent/test_job.h"

namespace stoker::agent {
namespace {

TEST(Instance, WhatTheDispatcherWantsIsPassedOnAndWhatAScriptWritesThereIsNotBelieved) {
  NEEDS_ROOT();
  TestJob job(65534);
  job.program = job.root() + "/program";
  // Stands for the dispatcher; $7 is what follows --sizing-file.
  job.write(job.program,
            "#!/bin/sh\necho '[{\"group\":\"train\",\"wanted\":9},{\"group\":\"data\",\"wanted\":3,"
            "\"stall\":0.25,\"reason\":\"it waits\"}]' > $7\nexec sleep 1000\n");
  job.write(job.assignment.job_dir + "/feed-token", "secret", 0444);
  job.assignment.feed = {{"algo-1:7170"}, job.assignment.job_dir + "/feed-token", true, false};
  job.script("import time\nwhile True: time.sleep(1000)\n");
  std::thread stopper([&] {
    auto sizing = job.events.wait_for<WantedSize>();
    EXPECT_TRUE(sizing && sizing->group == "data" && sizing->wanted == 3 && sizing->stall == 0.25 &&
                sizing->reason == "it waits")
        << job.events.text();
    job.stop.request({5, "test"});
  });
  job.run();
  stopper.join();
  EXPECT_EQ(job.events.text().find("\"wanted\":9"), std::string::npos) << "no feed group";
  EXPECT_EQ(job.leftovers(), "");
}

}  // namespace
}  // namespace stoker::agent
