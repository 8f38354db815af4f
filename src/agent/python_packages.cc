// SPDX-License-Identifier: Apache-2.0
#include "agent/python_packages.h"

#include <algorithm>
#include <filesystem>

namespace stoker::agent {

const char* const kPrintPackageFolders =
    "import os, sys; own = os.path.dirname(os.__file__); "
    "print(*[p for p in sys.path if p not in (own, own + '/lib-dynload') and not p.endswith('.zip')], "
    "sep='\\n')";

std::vector<std::string> package_folders(const std::string& printed) {
  std::vector<std::string> folders;
  for (size_t at = 0; at < printed.size();) {
    const size_t end = std::min(printed.find('\n', at), printed.size());
    if (printed[at] == '/') folders.push_back(printed.substr(at, end - at));
    at = end + 1;
  }
  return folders;
}

// An installation has a folder NAME-VERSION.dist-info, or one of its older kinds, beside its modules.
std::string installed_in(const std::vector<std::string>& folders) {
  std::string text;
  for (const std::string& folder : folders) {
    std::vector<std::string> names;
    std::error_code failed;
    for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
         at.increment(failed)) {
      std::string name = at->path().filename();
      if (name.ends_with(".dist-info") || name.ends_with(".egg-info") || name.ends_with(".egg-link"))
        names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    text += folder + '\n';
    for (const std::string& name : names) text += '\t' + name + '\n';
  }
  return text;
}

}  // namespace stoker::agent
