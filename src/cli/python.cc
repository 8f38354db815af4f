// SPDX-License-Identifier: Apache-2.0
#include "cli/python.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/session.h"

namespace stoker::cli {

namespace {

std::string absolute(const std::string& path) {
  std::error_code error;
  return std::filesystem::absolute(path, error).lexically_normal();
}

bool runnable(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

std::string on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (size_t at = 0; at <= rest.size();) {
    size_t end = std::min(rest.find(':', at), rest.size());
    std::string file = rest.substr(at, end - at) + "/" + program;
    if (end > at && runnable(file)) return absolute(file);
    at = end + 1;
  }
  return {};
}

}  // namespace

Result<std::string> find_python(const std::string& named) {
  if (!named.empty()) {
    std::string path = named.find('/') == std::string::npos ? on_path(named) : absolute(named);
    if (path.empty() || !runnable(path))
      return Error{Code::kNotFound, "there is no Python interpreter '" + named + "'", {}};
    return path;
  }
  if (const char* venv = std::getenv("VIRTUAL_ENV"); venv && *venv) {
    std::string path = absolute(std::string(venv) + "/bin/python");
    if (runnable(path)) return path;
  }
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string beside = self.parent_path().string() + "/python";
  if (!error && runnable(beside)) return beside;
  for (const char* name : {"python3", "python"})
    if (std::string path = on_path(name); !path.empty()) return path;
  return Error{Code::kNotFound, "there is no python3 on PATH; name an interpreter with --python", {}};
}

int become_python(const std::string& module, const std::vector<std::string>& arguments, bool json) {
  auto python = find_python({});
  if (!python.ok()) return fail(python.error(), json);
  std::vector<std::string> words = {*python, "-m", module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(python->c_str(), argv.data());
  return fail(Error{Code::kDenied, "running " + *python + ": " + std::strerror(errno), {}}, json);
}

}  // namespace stoker::cli
