// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "telemetry/series.h"

namespace stoker::telemetry {

// Opening a pipe would wait for whoever writes into it.
Result<UniqueFd> open_plain(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return UniqueFd();
  auto file = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);  // whatever it is meanwhile
  if (!file.ok() && file.error().code == Code::kNotFound) return UniqueFd();
  if (!file.ok()) return file;
  if (fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode)) return UniqueFd();
  return file;
}

Status read_tail(const std::string& path, size_t most_bytes, const std::function<void(const Json&)>& take) {
  STOKER_ASSIGN(UniqueFd file, open_plain(path));
  if (!file) return ok();
  const off_t end = lseek(file.get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(end - static_cast<off_t>(most_bytes), 0);
  std::string text(static_cast<size_t>(std::max<off_t>(end - from, 0)), '\0');
  const ssize_t n = pread(file.get(), text.data(), text.size(), from);
  if (n < 0) return errno_error("reading " + path, errno);
  std::string_view rest(text.data(), static_cast<size_t>(n));
  if (from > 0) rest.remove_prefix(std::min(rest.find('\n'), rest.size()));  // cut at its beginning
  for (size_t at; (at = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(at + 1)) {
    if (at > kLongestLine) continue;
    if (auto parsed = Json::parse(rest.substr(0, at)); parsed.ok() && parsed->is_object()) take(*parsed);
  }
  return ok();
}

}  // namespace stoker::telemetry
