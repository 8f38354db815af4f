// SPDX-License-Identifier: Apache-2.0
#include "agent/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "telemetry/inside.h"

namespace stoker::agent {
namespace {

constexpr int kRemoveTries = 2000;  // of a millisecond

struct Mounts {
  std::map<std::string, std::string> v1;  // controller -> mount point
  std::string v2;
};

// Lines of mountinfo: "id parent dev root point options [tags] - type source superoptions".
Result<Mounts> find_mounts() {
  STOKER_ASSIGN(std::string text, read_text("/proc/self/mountinfo"));
  Mounts mounts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream head(line), tail(line.substr(dash + 3));
    std::string skip, point, type, source, options;
    head >> skip >> skip >> skip >> skip >> point;
    tail >> type >> source >> options;
    if (type == "cgroup2" && mounts.v2.empty()) mounts.v2 = point;
    if (type != "cgroup") continue;
    std::istringstream words(options);
    for (std::string word; std::getline(words, word, ',');) mounts.v1.emplace(word, point);
  }
  return mounts;
}

Status write_control(const std::string& path, const std::string& text) {
  STOKER_ASSIGN(UniqueFd fd, open_file(path, O_WRONLY));
  auto written = write_all(fd.get(), as_bytes(text));
  if (!written.ok()) return std::move(written).error().during("write '" + text + "' to " + path);
  return ok();
}

// Two steps, tried again when somebody removes the empty parent in between.
Status make_group(const std::string& mount, const std::string& name) {
  for (int tries = 0; tries < 100; tries++) {
    mkdir((mount + telemetry::kCgroupParent).c_str(), 0755);
    if (mkdir((mount + telemetry::kCgroupParent + "/" + name).c_str(), 0755) == 0 || errno == EEXIST)
      return ok();
    if (errno != ENOENT) break;
  }
  return errno_error("make control group " + mount + telemetry::kCgroupParent + "/" + name, errno);
}

Status remove_folder(const std::string& path) {
  for (int tries = 0; tries < kRemoveTries; tries++) {
    if (rmdir(path.c_str()) == 0 || errno == ENOENT) return ok();
    if (errno != EBUSY) break;
    poll(nullptr, 0, 1);
  }
  return errno_error("remove control group " + path, errno);
}

// Version 1 has no kill file. Whoever forks meanwhile is met in the next round.
void kill_members(const std::string& folder) {
  for (int round = 0; round < 100; round++) {
    auto text = read_text(folder + "/cgroup.procs");
    if (!text.ok() || text->empty()) return;
    std::istringstream words(*text);
    for (pid_t pid; words >> pid;)
      if (pid > 1) kill(pid, SIGKILL);
    poll(nullptr, 0, 1);
  }
}

Result<UniqueFd> open_group(const std::string& path) { return open_file(path, O_RDONLY | O_DIRECTORY); }

std::string parent_of(const std::string& folder) { return folder.substr(0, folder.rfind('/')); }

}  // namespace

CpuQuota cpu_quota(double cores) {
  constexpr int64_t kPeriod = 20'000, kLeastQuota = 1'000, kLongestPeriod = 1'000'000;
  int64_t quota = std::llround(cores * kPeriod);
  if (quota >= kLeastQuota) return {quota, kPeriod};
  return {kLeastQuota, std::min<int64_t>(std::llround(kLeastQuota / cores), kLongestPeriod)};
}

Result<Cgroup> Cgroup::create(const std::string& name, const CgroupLimits& limits) {
  STOKER_ASSIGN(Mounts mounts, find_mounts());
  Cgroup group;
  const bool v1 = mounts.v1.contains("cpu");
  if (!mounts.v2.empty()) {
    const std::string own = mounts.v2 + telemetry::kCgroupParent + "/" + name;
    STOKER_TRY(make_group(mounts.v2, name));
    if (!v1) {
      // A group that hands controllers down may hold no process of its own, hence the two children.
      for (const std::string& level : {mounts.v2, mounts.v2 + telemetry::kCgroupParent, own})
        STOKER_TRY(write_control(level + "/cgroup.subtree_control", "+cpu +memory +pids"));
      group.folders_ = {own + "/user", own + "/user", own + "/user", true};
      group.pids_ = own + "/user";
    }
    for (const char* child : {"/shim", "/user"})
      if (mkdir((own + child).c_str(), 0755) != 0 && errno != EEXIST)
        return errno_error("make control group " + own + child, errno);
    STOKER_ASSIGN(group.shim_group_, open_group(own + "/shim"));
    STOKER_ASSIGN(group.user_group_, open_group(own + "/user"));
  }
  if (v1) {
    std::set<std::string> joined;
    for (const char* controller : {"cpu", "cpuacct", "memory", "pids"}) {
      auto mount = mounts.v1.find(controller);
      if (mount == mounts.v1.end())
        return Error{Code::kUnsupported, std::string("control groups: no controller ") + controller, {}};
      STOKER_TRY(make_group(mount->second, name));
      std::string own = mount->second + telemetry::kCgroupParent + "/" + name;
      if (!joined.insert(mount->second).second) continue;  // cpu and cpuacct are often one mount
      STOKER_ASSIGN(UniqueFd tasks, open_file(own + "/tasks", O_WRONLY));
      group.join_files_.push_back(std::move(tasks));
    }
    auto own = [&](const char* controller) {
      return mounts.v1[controller] + telemetry::kCgroupParent + "/" + name;
    };
    group.folders_ = {own("cpu"), own("cpuacct"), own("memory"), false};
    group.pids_ = own("pids");
  } else if (mounts.v2.empty()) {
    return Error{Code::kUnsupported, "control groups: none are mounted", {}};
  }
  STOKER_TRY(group.limit(limits));
  return group;
}

Status Cgroup::limit(const CgroupLimits& limits) {
  CpuQuota cpu = cpu_quota(limits.cores);
  // Beside busy processes of the machine an instance is to get its cores all the same: the quota is what
  // bounds it. The parent's weight counts against the rest of the machine, the instance's own against other
  // instances.
  const double weight = std::clamp(limits.cores * 100, 1.0, 10000.0);
  const std::string memory = std::to_string(limits.memory_bytes);
  if (folders_.unified) {
    STOKER_TRY(write_control(folders_.cpu + "/cpu.max",
                             std::to_string(cpu.quota_us) + " " + std::to_string(cpu.period_us)));
    STOKER_TRY(write_control(parent_of(parent_of(folders_.cpu)) + "/cpu.weight", "10000"));
    STOKER_TRY(write_control(parent_of(folders_.cpu) + "/cpu.weight", std::to_string(std::lround(weight))));
    STOKER_TRY(write_control(folders_.memory + "/memory.max", memory));
    if (access((folders_.memory + "/memory.swap.max").c_str(), W_OK) == 0)
      STOKER_TRY(write_control(folders_.memory + "/memory.swap.max", "0"));
  } else {
    STOKER_TRY(write_control(folders_.cpu + "/cpu.cfs_period_us", std::to_string(cpu.period_us)));
    STOKER_TRY(write_control(folders_.cpu + "/cpu.cfs_quota_us", std::to_string(cpu.quota_us)));
    STOKER_TRY(write_control(parent_of(folders_.cpu) + "/cpu.shares", "262144"));
    STOKER_TRY(write_control(folders_.cpu + "/cpu.shares", std::to_string(std::lround(weight * 1024 / 100))));
    STOKER_TRY(write_control(folders_.memory + "/memory.limit_in_bytes", memory));
    if (access((folders_.memory + "/memory.memsw.limit_in_bytes").c_str(), W_OK) == 0)
      STOKER_TRY(write_control(folders_.memory + "/memory.memsw.limit_in_bytes", memory));
  }
  return write_control(pids_ + "/pids.max", std::to_string(limits.pids));
}

Status Cgroup::remove(const std::string& name) {
  STOKER_ASSIGN(Mounts mounts, find_mounts());
  std::set<std::string> points;
  for (const char* controller : {"cpu", "cpuacct", "memory", "pids"})
    if (auto mount = mounts.v1.find(controller); mount != mounts.v1.end()) points.insert(mount->second);
  if (!mounts.v2.empty()) {
    const std::string own = mounts.v2 + telemetry::kCgroupParent + "/" + name;
    if (access(own.c_str(), F_OK) == 0) {
      if (!write_control(own + "/cgroup.kill", "1").ok())  // kernels before 5.14
        for (const char* child : {"/shim", "/user"}) kill_members(own + child);
      for (const std::string& folder : {own + "/shim", own + "/user", own}) STOKER_TRY(remove_folder(folder));
    }
    rmdir((mounts.v2 + telemetry::kCgroupParent).c_str());  // the last one out; busy is fine
  }
  for (const auto& point : points) {
    const std::string own = point + telemetry::kCgroupParent + "/" + name;
    if (access(own.c_str(), F_OK) == 0) {
      kill_members(own);
      STOKER_TRY(remove_folder(own));
    }
    rmdir((point + telemetry::kCgroupParent).c_str());
  }
  return ok();
}

}  // namespace stoker::agent
