// SPDX-License-Identifier: Apache-2.0
#include "base/home.h"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/hash.h"

namespace stoker {

Result<std::string> stoker_home() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::string home = variable("STOKER_HOME");
  if (home.empty() && !variable("XDG_DATA_HOME").empty()) home = variable("XDG_DATA_HOME") + "/stoker";
  if (home.empty()) {
    std::string user = variable("HOME");
    // With a sudo that keeps HOME, root would leave its files in another user's folder.
    struct stat st {};
    if (::getuid() == 0 && ::stat(user.c_str(), &st) == 0 && st.st_uid != 0) user.clear();
    const passwd* entry = user.empty() ? ::getpwuid(::getuid()) : nullptr;
    if (entry) user = entry->pw_dir;
    if (user.empty()) return invalid("there is no home folder; set STOKER_HOME to a folder of yours");
    home = user + "/.local/share/stoker";
  }
  std::error_code error;
  home = std::filesystem::absolute(home, error).lexically_normal();
  // Links are followed: what is hidden from instances must be the folder itself, by whatever name it is
  // reached.
  if (auto real = std::filesystem::weakly_canonical(home, error); !error) home = real;
  while (home.size() > 1 && home.back() == '/') home.pop_back();
  return home;
}

std::string server_socket(const std::string& home) {
  std::string path = home + "/run/server.sock";
  if (path.size() < sizeof(sockaddr_un::sun_path)) return path;
  return "/tmp/stoker-" + std::to_string(::getuid()) + "-" + sha256_hex(as_bytes(home)).substr(0, 16) +
         "/server.sock";
}

}  // namespace stoker
