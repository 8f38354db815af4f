// SPDX-License-Identifier: Apache-2.0
// For tests: a job of one or more instances in a folder of its own, run for real. Needs root and namespaces.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "agent/run.h"
#include "base/test_folder.h"

namespace stoker::agent {

using Outcome = decltype(AgentEvent::what);

class RecordedEvents : public EventSink {
 public:
  void emit(Outcome what) override {
    events_.notify([&](auto& events) { events.push_back(std::move(what)); });
  }
  template <typename What>
  std::optional<What> wait_for() {
    auto find = [](auto& events) -> std::optional<What> {
      for (auto& event : events)
        if (auto* found = std::get_if<What>(&event)) return *found;
      return {};
    };
    return events_.wait_until(
        std::chrono::steady_clock::now() + std::chrono::seconds(60),
        [&](auto& events) { return find(events).has_value(); },
        [&](auto& events, bool) { return find(events); });
  }
  template <typename What>
  std::optional<What> find() {
    return events_.with([](auto& events) -> std::optional<What> {
      for (auto& event : events)
        if (auto* found = std::get_if<What>(&event)) return *found;
      return {};
    });
  }
  std::string text() {
    return events_.with([](auto& events) {
      std::string all;
      for (auto& what : events) all += AgentEvent{0, 0, what}.to_json().dump() + "\n";
      return all;
    });
  }

 private:
  Guarded<std::vector<Outcome>> events_;
};

class TestJob {
 public:
  explicit TestJob(int64_t uid = 0) : uid_(uid) {
    chmod(root_.c_str(), 0755);
    const std::string id = root_.substr(root_.size() - 6);
    assignment = base(id);
    for (const std::string& folder :
         {root_ + "/home", root_ + "/home/jobs", assignment.job_dir, assignment.code_dir}) {
      mkdir(folder.c_str(), 0755);
      EXPECT_EQ(chown(folder.c_str(), static_cast<uid_t>(uid), static_cast<gid_t>(uid)), 0);
    }
  }

  const std::string& root() const { return root_; }
  void write(const std::string& name, const std::string& text, int mode = 0755) {
    std::ofstream(name) << text;
    chmod(name.c_str(), static_cast<mode_t>(mode));
  }
  void script(const std::string& python) { write(assignment.code_dir + "/train.py", python); }
  std::string log(const std::string& host = "algo-1", const std::string& group = "train") const {
    auto text = read_text(log_path(host, group));
    return text.ok() ? *text : "";
  }
  std::string log_path(const std::string& host = "algo-1", const std::string& group = "train") const {
    return assignment.job_dir + "/logs/" + group + "/" + host + ".log";
  }

  // To its end.
  Outcome run() {
    run_instance(assignment, events, stop, program);
    if (auto exited = events.find<Exited>()) return *exited;
    if (auto stopped = events.find<Stopped>()) return *stopped;
    if (auto failed = events.find<Failed>()) return *failed;
    return Released{};
  }
  Exited run_to_exit() {
    Outcome outcome = run();
    EXPECT_TRUE(std::holds_alternative<Exited>(outcome)) << events.text() << log();
    return std::holds_alternative<Exited>(outcome) ? std::get<Exited>(outcome) : Exited{-1};
  }

  // Blocks until the log holds `text`; false after a minute.
  bool wait_for_log(const std::string& text, const std::string& host = "algo-1",
                    const std::string& group = "train") const {
    UniqueFd watch(inotify_init1(IN_CLOEXEC));
    inotify_add_watch(watch.get(), log_path(host, group).c_str(), IN_MODIFY);
    for (int rounds = 0; rounds < 600; rounds++) {
      if (log(host, group).find(text) != std::string::npos) return true;
      pollfd fds{watch.get(), POLLIN, 0};
      poll(&fds, 1, 100);
      char drop[4096];
      if (fds.revents && ::read(watch.get(), drop, sizeof drop) < 0) return false;
    }
    return false;
  }

  // What is on the machine of this job: groups, interfaces, mounts, processes. Empty when all is well.
  std::string leftovers() const {
    std::string found;
    namespace fs = std::filesystem;
    for (const auto& controller : fs::directory_iterator("/sys/fs/cgroup"))
      if (std::error_code none; fs::is_directory(controller.path() / "stoker", none))
        for (const auto& group : fs::directory_iterator(controller.path() / "stoker", none))
          if (group.path().filename().string().find(assignment.job) != std::string::npos)
            found += group.path().string() + "\n";
    if (fs::exists("/sys/class/net/" + assignment.network.bridge)) found += assignment.network.bridge + "\n";
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);)
      if (line.find(root_) != std::string::npos) found += line + "\n";
    for (const auto& process : fs::directory_iterator("/proc")) {
      auto variables = read_text(process.path().string() + "/environ");
      if (variables.ok() && variables->find("STOKER_JOB=" + assignment.job) != std::string::npos)
        found += process.path().string() + "\n";
    }
    return found;
  }
  // Files below the job's folder that are not the caller's.
  std::string foreign_files() const {
    std::string found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(assignment.job_dir)) {
      struct stat info {};
      lstat(entry.path().c_str(), &info);
      if (info.st_uid != static_cast<uid_t>(uid_) &&
          entry.path().string().find("/code/") == std::string::npos)
        found += entry.path().string() + "\n";
    }
    return found;
  }

  Assignment assignment;
  RecordedEvents events;
  StopRequest stop;
  std::string program = "/bin/true";

 private:
  Assignment base(const std::string& id) const {
    Assignment a;
    a.job = "test-" + id;
    a.host = "algo-1";
    a.group = "train";
    a.instance_type = "ml.m5.large";
    a.vcpus = 2;
    a.cores = 2;
    a.memory_bytes = int64_t{1} << 30;
    const std::string net =
        "10.68." + std::to_string(static_cast<unsigned char>(id[0]) ^ static_cast<unsigned char>(id[3])) +
        ".";
    a.addresses = {{"algo-1", net + "2"}, {"algo-2", net + "3"}};
    a.groups = {{"train", "ml.m5.large", Role::kNone, {"algo-1"}, {}},
                {"data", "ml.c5.large", Role::kFeed, {"algo-2"}, {"train"}}};
    a.network = {"skt" + id, net + "2", net + "1", 24, 1500, true};
    a.stoker_home = root_ + "/home";
    a.job_dir = a.stoker_home + "/jobs/" + a.job;
    a.code_dir = a.job_dir + "/code";
    a.entry.script = "train.py";
    a.python = "/usr/bin/python3";
    a.uid = a.gid = uid_;
    a.grace_s = 5;
    return a;
  }

  int64_t uid_;
  TestFolder own_;
  const std::string root_ = own_.path();
};

// First line of every test that needs the machine. The shim is a clone without exec, in which the thread
// sanitizer's own locks may be held for ever.
#ifdef __SANITIZE_THREAD__
#define NEEDS_ROOT() GTEST_SKIP() << "the thread sanitizer does not survive a clone without exec"
#else
#define NEEDS_ROOT() \
  if (geteuid() != 0) GTEST_SKIP() << "namespaces, control groups and bridges need root"
#endif

}  // namespace stoker::agent
