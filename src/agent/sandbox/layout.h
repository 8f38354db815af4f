// SPDX-License-Identifier: Apache-2.0
// Which file tree an instance sees (docs/instance.md), decided as a list of steps. Pure but for the questions
// it asks through HostView, so that a test can answer them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/sandbox/plan.h"
#include "base/result.h"

namespace stoker::agent {

struct HostView {
  std::vector<std::string> opt;      // names in /opt
  bool opt_ml = false;               // whether /opt/ml is there
  std::string resolv_conf_path;      // where /etc/resolv.conf leads
  std::string resolv_conf;           // name servers that work from another network namespace
  std::vector<std::string> devices;  // of accelerators, to pass through
};
HostView look_at_host();

struct Bound {
  std::string source;
  std::string target;
  bool read_only = false;
};

struct LayoutInput {
  uint32_t uid = 0;
  uint32_t gid = 0;
  int64_t memory_bytes = 0;
  std::string code_dir;
  std::vector<Bound> bounds;                 // beneath /opt/ml, absolute targets
  std::vector<std::string> folders;          // private ones beneath /opt/ml, absolute
  std::map<std::string, std::string> files;  // absolute path beneath /opt/ml -> content
  std::map<std::string, uint32_t> modes;     // of files, 0644 where not named
  std::string hosts_file;
  std::string hidden;                       // a folder that shows empty (stoker's own)
  std::vector<std::string> readable;        // folders kept although they lie in a hidden or private one
  std::vector<std::string> readable_files;  // likewise
};

std::vector<MountStep> sandbox_layout(const LayoutInput& input, const HostView& host);

}  // namespace stoker::agent
