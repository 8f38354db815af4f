// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <sched.h>
#include <sys/sysinfo.h>

#include "base/files.h"
#include "control/catalogue.h"

namespace stoker::control {

namespace {

// NVIDIA's driver lists one folder per accelerator.
void find_gpus(Machine& machine) {
  const std::string root = "/proc/driver/nvidia/gpus";
  DIR* folder = ::opendir(root.c_str());
  if (!folder) return;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    ++machine.gpus;
    auto text = read_text(root + "/" + entry->d_name + "/information");
    if (!text.ok()) continue;
    size_t at = text->find("Model:");
    if (at == std::string::npos) continue;
    size_t start = text->find_first_not_of(" \t", at + 6);
    size_t end = text->find('\n', at);
    if (start != std::string::npos && start < end) machine.gpu_model = text->substr(start, end - start);
  }
  ::closedir(folder);
}

}  // namespace

Machine Machine::here() {
  Machine machine;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) machine.cores = CPU_COUNT(&set);
  struct sysinfo info {};
  if (::sysinfo(&info) == 0) machine.memory_bytes = static_cast<int64_t>(info.totalram) * info.mem_unit;
  find_gpus(machine);
  return machine;
}

}  // namespace stoker::control
