// SPDX-License-Identifier: Apache-2.0
#include "feed/own_threads.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "base/files.h"

namespace stoker::feed {

Result<OwnThreads::Times> OwnThreads::read() {
  const std::string folder = "/proc/self/task";
  std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir(folder.c_str()), closedir);
  if (!tasks) return errno_error("reading " + folder, errno);
  std::map<int, Times> now;
  while (const dirent* entry = readdir(tasks.get())) {
    const int thread = std::atoi(entry->d_name);
    if (thread <= 0) continue;
    auto text = read_text(folder + "/" + entry->d_name + "/schedstat");
    if (!text.ok()) continue;  // it has just ended
    Times times;
    if (std::sscanf(text->c_str(), "%ld %ld", &times.run_ns, &times.delay_ns) == 2) now[thread] = times;
  }
  if (now.empty())
    return Error{Code::kUnsupported, "this kernel does not tell what threads wait for cores", {}};
  for (const auto& [thread, times] : now) {
    const auto before = last_.find(thread);
    const bool is_new =
        before == last_.end() || times.run_ns < before->second.run_ns;  // or the number's second
    if (is_new && is_first_) continue;
    sum_.run_ns += times.run_ns - (is_new ? 0 : before->second.run_ns);
    sum_.delay_ns += std::max<int64_t>(0, times.delay_ns - (is_new ? 0 : before->second.delay_ns));
  }
  last_ = std::move(now);
  is_first_ = false;
  return sum_;
}

}  // namespace stoker::feed
