// SPDX-License-Identifier: Apache-2.0
// What a sandbox will be, as data: every string that the new processes need is made here, before the clone,
// because between clone and exec they may only make system calls (another thread of the agent may hold
// malloc's lock). Values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker::agent {

// One step in building the instance's file tree. `target` is relative to the new root.
struct MountStep {
  enum class Kind {
    kBind,       // source (a path outside) at target; read_only applies to everything beneath
    kTmpfs,      // with the options in `content`
    kDirectory,  // mode, owner; there already is fine
    kFile,       // content, mode, owner
    kLink,       // target -> source
    kOverlay,    // `source` beneath, with the options in `content`; bound itself where there is no overlay
    kProc,
    kSysfs,
    kDevpts,
  };
  Kind kind = Kind::kBind;
  std::string source;
  std::string target;
  std::string content;  // of kFile; the mount options of kOverlay, kTmpfs
  uint32_t mode = 0755;
  uint32_t uid = 0;
  uint32_t gid = 0;
  bool read_only = false;
  bool optional = false;  // a failure is no reason to stop
  bool inside = false;    // after the change of root, so that absolute links lead where they lead inside
};

// A process of the instance. The first of a plan is the user's; the instance ends with it, unless it may be
// started again.
struct ProcessPlan {
  std::string name;                     // for people
  std::vector<std::string> candidates;  // paths inside, of which the first that can be executed is
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=VALUE
  std::string folder;                    // working directory, inside
  int log = -1;                          // becomes 1 and 2
  bool limited = true;                   // under the quota
  bool again = false;                    // started again when it ends untold
};

struct SandboxPlan {
  std::string host_name;
  std::vector<MountStep> mounts;
  std::string address;  // of eth0, dotted
  std::string netmask;
  std::string gateway;
  ProcessPlan user;
  std::vector<ProcessPlan> helpers;  // started before it, again when they end, killed after it
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;
  std::vector<int> join_files;  // of the limited processes (Cgroup::join_files)
  int shim_group = -1;
  int user_group = -1;
};

}  // namespace stoker::agent
