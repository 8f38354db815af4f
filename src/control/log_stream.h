// SPDX-License-Identifier: Apache-2.0
// The logs of a job as one stream, read from its files and followed through inotify: no polling, and nothing
// is lost, since the files hold every byte that the user's write() returned for. Confined to the loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "control/signal.h"
#include "http/server.h"

namespace stoker::control {

// Tells when something in a folder has changed. One inotify descriptor for all.
class FolderWatch {
 public:
  explicit FolderWatch(http::Loop& loop) : loop_(loop) {}
  ~FolderWatch();
  Status open();
  // The signal fires at each change in the folder, while the shared pointer is held.
  Result<std::shared_ptr<Signal>> watch(const std::string& folder);

 private:
  void on_readable();
  http::Loop& loop_;
  UniqueFd fd_;
  std::map<int, std::weak_ptr<Signal>> signals_;
};

struct LogSource {
  std::string folder;  // that holds the file
  std::string path;
  std::string prefix;  // put before each line; "" leaves the bytes as they are
};

// Answers the exchange with all bytes of the sources. With `follow`, goes on until over() is true and every
// byte that was written by then is sent; `changed` fires when over() may have become true or sources() more:
// they may become more, at the end of the list.
void stream_logs(FolderWatch& watches, http::ExchangePtr exchange,
                 std::function<std::vector<LogSource>()> sources, bool follow, std::function<bool()> over,
                 Signal& changed);

}  // namespace stoker::control
