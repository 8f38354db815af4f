// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox/layout.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <set>

#include "base/files.h"

namespace stoker::agent {
namespace {

using Kind = MountStep::Kind;

bool is_beneath(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

class Builder {
 public:
  explicit Builder(const LayoutInput& input) : input_(input) {}
  std::vector<MountStep> take() { return std::move(steps_); }

  // Absolute paths become relative to the new root.
  MountStep& add(Kind kind, const std::string& target) {
    MountStep step;
    step.kind = kind;
    step.target = target.substr(1);
    steps_.push_back(std::move(step));
    return steps_.back();
  }
  void tmpfs(const std::string& target, const std::string& mode, bool owned = false) {
    std::string options = "mode=" + mode + ",size=" + std::to_string(input_.memory_bytes);
    if (owned) options += ",uid=" + std::to_string(input_.uid) + ",gid=" + std::to_string(input_.gid);
    add(Kind::kTmpfs, target).content = options;
    private_.insert(target);
  }
  void folder(const std::string& target, uint32_t mode = 0755) {
    if (!folders_.insert(target).second) return;
    MountStep& step = add(Kind::kDirectory, target);
    step.mode = mode, step.uid = input_.uid, step.gid = input_.gid;
  }
  // The file system of ours that a path lies in; nullptr where the machine's own shows.
  const std::string* private_around(const std::string& target) const {
    const std::string* within = nullptr;
    for (const auto& root : private_)
      if (is_beneath(target, root) && (!within || root.size() > within->size())) within = &root;
    return within;
  }
  // Those between a file system of ours and the target, which is included.
  void folders_to(const std::string& target) {
    const std::string* within = private_around(target);
    if (!within) return;
    for (size_t at = target.find('/', within->size() + 1); at != std::string::npos;
         at = target.find('/', at + 1))
      folder(target.substr(0, at));
    if (target != *within) folder(target);
  }
  void file(const std::string& target, const std::string& content, uint32_t mode = 0644, bool owned = true) {
    if (size_t slash = target.rfind('/'); slash > 0) folders_to(target.substr(0, slash));
    MountStep& step = add(Kind::kFile, target);
    step.content = content, step.mode = mode;
    if (owned) step.uid = input_.uid, step.gid = input_.gid;
  }
  MountStep& bind(const std::string& source, const std::string& target, bool read_only) {
    MountStep& step = add(Kind::kBind, target);
    step.source = source, step.read_only = read_only;
    return step;
  }
  void link(const std::string& target, const std::string& to) { add(Kind::kLink, target).source = to; }

 private:
  const LayoutInput& input_;
  std::vector<MountStep> steps_;
  std::set<std::string> private_;  // where a tmpfs of ours is mounted
  std::set<std::string> folders_;  // made already
};

// Where the machine has no /opt/ml to mount on, /opt itself becomes ours and shows what was there.
void opt_ml(Builder& builder, const HostView& host) {
  if (!host.opt_ml) {
    builder.tmpfs("/opt", "755");
    for (const auto& name : host.opt) {
      builder.folder("/opt/" + name);
      builder.bind("/opt/" + name, "/opt/" + name, true).optional = true;
    }
    builder.folder("/opt/ml");
  }
  builder.tmpfs("/opt/ml", "755", true);
}

void devices(Builder& builder, const HostView& host) {
  builder.tmpfs("/dev", "755");
  for (const char* name : {"null", "zero", "full", "random", "urandom", "tty"}) {
    builder.file(std::string("/dev/") + name, "", 0644, false);
    builder.bind(std::string("/dev/") + name, std::string("/dev/") + name, false);
  }
  for (const auto& path : host.devices) {
    builder.file(path, "", 0644, false);
    builder.bind(path, path, false);
  }
  for (auto [name, to] : {std::pair{"fd", "/proc/self/fd"},
                          {"stdin", "fd/0"},
                          {"stdout", "fd/1"},
                          {"stderr", "fd/2"},
                          {"ptmx", "pts/ptmx"}})
    builder.link(std::string("/dev/") + name, to);
  builder.folder("/dev/pts");
  builder.add(Kind::kDevpts, "/dev/pts");
  builder.folder("/dev/shm", 01777);
  builder.tmpfs("/dev/shm", "1777");
}

// A caller who is root could otherwise write the machine's settings: those files look at the uid alone.
void proc_and_sys(Builder& builder) {
  builder.add(Kind::kProc, "/proc");
  for (const char* path : {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"}) {
    MountStep& step = builder.bind(path, path, true);
    step.inside = step.optional = true;
  }
  for (const char* path : {"/proc/kcore", "/proc/keys", "/proc/timer_list"}) {
    MountStep& step = builder.bind("/dev/null", path, true);
    step.inside = step.optional = true;
  }
  builder.add(Kind::kSysfs, "/sys").optional = true;  // else the machine's, read-only with the rest
}

void code(Builder& builder, const LayoutInput& input) {
  const std::string scratch = "/opt/ml/.code";
  builder.folder("/opt/ml/code");
  if (input.code_dir.find_first_of(",:\\") != std::string::npos) {  // separators of overlay's options
    builder.bind(input.code_dir, "/opt/ml/code", false);
    return;
  }
  MountStep& outer = builder.add(Kind::kDirectory, scratch);
  outer.mode = 0700;
  builder.folder(scratch + "/upper");
  builder.folder(scratch + "/work");
  MountStep& step = builder.add(Kind::kOverlay, "/opt/ml/code");
  step.source = input.code_dir;
  step.content = "lowerdir=" + input.code_dir + ",upperdir=opt/ml/.code/upper,workdir=opt/ml/.code/work";
}

void name_files(Builder& builder, const LayoutInput& input, const HostView& host) {
  auto over = [&](const std::string& target, const std::string& content, const std::string& staged) {
    builder.file(staged, content, 0644, false);
    MountStep& step = builder.bind(staged, target, true);
    step.inside = step.optional = true;
  };
  over("/etc/hosts", input.hosts_file, "/run/.stoker-hosts");
  if (host.resolv_conf_path.empty()) return;
  if (is_beneath(host.resolv_conf_path, "/run"))
    builder.file(host.resolv_conf_path, host.resolv_conf, 0644, false);
  else
    over("/etc/resolv.conf", host.resolv_conf, "/run/.stoker-resolv");
}

bool only_loopback(const std::string& text) { return text.find("nameserver 127.") != std::string::npos; }

}  // namespace

HostView look_at_host() {
  HostView host;
  if (DIR* folder = opendir("/opt")) {
    while (dirent* entry = readdir(folder))
      if (entry->d_name[0] != '.' && entry->d_type == DT_DIR) host.opt.emplace_back(entry->d_name);
    closedir(folder);
  }
  host.opt_ml = access("/opt/ml", F_OK) == 0;
  char real[PATH_MAX];
  if (realpath("/etc/resolv.conf", real)) host.resolv_conf_path = real;
  if (auto text = read_text("/etc/resolv.conf"); text.ok()) host.resolv_conf = *text;
  // A resolver on the machine's own loopback is out of reach; its upstreams are not.
  if (only_loopback(host.resolv_conf))
    if (auto text = read_text("/run/systemd/resolve/resolv.conf"); text.ok()) host.resolv_conf = *text;
  if (DIR* folder = opendir("/dev")) {
    while (dirent* entry = readdir(folder))
      if (std::string name = entry->d_name; name.starts_with("nvidia") && entry->d_type == DT_CHR)
        host.devices.push_back("/dev/" + name);
    closedir(folder);
  }
  return host;
}

std::vector<MountStep> sandbox_layout(const LayoutInput& input, const HostView& host) {
  Builder builder(input);
  opt_ml(builder, host);
  builder.tmpfs("/tmp", "1777");
  builder.tmpfs("/run", "755");
  devices(builder, host);
  if (!input.hidden.empty()) {
    builder.folders_to(input.hidden);
    builder.tmpfs(input.hidden, "755");
  }
  std::vector<std::string> shown;
  auto needs_showing = [&](const std::string& path) -> bool {
    // Beneath what is shown already nothing can be made, and nothing needs to be.
    for (const auto& folder : shown)
      if (is_beneath(path, folder)) return false;
    return builder.private_around(path) != nullptr;
  };
  for (const auto& path : input.readable) {
    if (!needs_showing(path)) continue;
    builder.folders_to(path);
    builder.bind(path, path, true).optional = true;
    shown.push_back(path);
  }
  for (const auto& path : input.readable_files) {
    if (!needs_showing(path)) continue;
    builder.file(path, "");
    builder.bind(path, path, true).optional = true;
  }
  code(builder, input);
  for (const auto& path : input.folders) builder.folders_to(path);
  for (const auto& bound : input.bounds) {
    builder.folders_to(bound.target);
    builder.bind(bound.source, bound.target, bound.read_only);
    // Not by way of a folder around it either.
    const std::string around = bound.source == "/" ? "" : bound.source;
    if (!input.hidden.empty() && is_beneath(input.hidden, around))
      builder.tmpfs(bound.target + input.hidden.substr(around.size()), "755");
  }
  for (const auto& [path, content] : input.files) {
    auto mode = input.modes.find(path);
    builder.file(path, content, mode == input.modes.end() ? 0644 : mode->second);
  }
  name_files(builder, input, host);
  proc_and_sys(builder);
  return builder.take();
}

}  // namespace stoker::agent
