// SPDX-License-Identifier: Apache-2.0
#include "control/code_copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/files.h"

namespace stoker::control {

namespace {

// Folders that are never code, whatever is in them (docs/guide/jobs.md lists them).
const std::vector<std::string> kLeftOutFolders = {".git",          ".hg",
                                                  ".svn",          ".bzr",
                                                  ".venv",         ".env",
                                                  ".tox",          ".nox",
                                                  "node_modules",  ".conda",
                                                  ".cache",        "__pycache__",
                                                  ".mypy_cache",   ".ruff_cache",
                                                  ".pytest_cache", ".idea",
                                                  ".vscode",       "wandb",
                                                  "mlruns",        "lightning_logs",
                                                  "*.egg-info",    ".ipynb_checkpoints"};
// Environments and data, unless a Python file directly in them says otherwise.
const std::vector<std::string> kMaybeCode = {"env",         "venv", "data",    "dataset", "datasets",
                                             "checkpoints", "runs", "outputs", "logs"};
// The same for plain files: what a worktree, an editor or the interpreter left, and secrets.
const std::vector<std::string> kLeftOutFiles = {".git", ".env", "*.pyc", ".DS_Store"};

bool matches(const std::vector<std::string>& patterns, const char* name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), name, 0) == 0; });
}

bool holds(const std::string& folder, const std::vector<std::string>& patterns) {
  DIR* open = ::opendir(folder.c_str());
  if (!open) return false;
  bool found = false;
  while (const dirent* entry = ::readdir(open)) found = found || matches(patterns, entry->d_name);
  ::closedir(open);
  return found;
}

bool is_left_out(const std::string& path, const char* name, bool is_folder) {
  if (!is_folder) return matches(kLeftOutFiles, name);
  if (matches(kLeftOutFolders, name) || holds(path, {"pyvenv.cfg", "conda-meta"})) return true;
  return matches(kMaybeCode, name) && !holds(path, {"*.py"});
}

Status copy_file(const std::string& from, const std::string& to, mode_t mode, int follow) {
  // Should it have become a pipe since, opening it must not wait for a writer.
  STOKER_ASSIGN(UniqueFd in, open_file(from, O_RDONLY | follow | O_NONBLOCK));
  STOKER_ASSIGN(UniqueFd out, open_file(to, O_WRONLY | O_CREAT | O_EXCL, (mode & 0777) | 0600));
  while (true) {
    ssize_t n = ::sendfile(out.get(), in.get(), nullptr, 1 << 30);
    if (n == 0) return ok();
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("copying " + from, errno);
  }
}

class Copier {
 public:
  // Without `write` it only counts.
  Copier(const std::vector<std::string>& skip, const CodeLimits& limits, bool write)
      : skip_(skip), limits_(limits), write_(write) {}

  Status folder(const std::string& from, const std::string& to, const std::string& relative, int depth) {
    if (depth > 64) return invalid("the code folder is more than 64 folders deep at " + from);
    DIR* open = ::opendir(from.c_str());
    if (!open) return errno_error("reading the code folder " + from, errno);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(open)) {
      std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(std::move(name));
    }
    ::closedir(open);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names)
      STOKER_TRY(item(from + "/" + name, to + "/" + name, relative, name, depth));
    return ok();
  }

  CodeCopy done() { return std::move(copy_); }

 private:
  Status item(const std::string& from, const std::string& to, const std::string& relative,
              const std::string& name, int depth) {
    struct stat st;
    if (::lstat(from.c_str(), &st) != 0) return errno_error("looking at " + from, errno);
    bool is_folder = S_ISDIR(st.st_mode);
    bool skipped = std::find(skip_.begin(), skip_.end(), from) != skip_.end();
    if (skipped || is_left_out(from, name.c_str(), is_folder)) {
      if (copy_.left_out.size() < 100) copy_.left_out.push_back(relative + name + (is_folder ? "/" : ""));
      return ok();
    }
    if (is_folder) {
      if (write_ && ::mkdir(to.c_str(), (st.st_mode & 0777) | 0700) != 0)
        return errno_error("making " + to, errno);
      return folder(from, to, relative + name + "/", depth + 1);
    }
    if (S_ISLNK(st.st_mode)) return link(from, to);
    if (!S_ISREG(st.st_mode)) return ok();  // sockets, pipes
    top_bytes_[(relative + name).substr(0, (relative + name).find('/'))] += st.st_size;
    STOKER_TRY(count(st.st_size));
    return write_ ? copy_file(from, to, st.st_mode, O_NOFOLLOW) : ok();
  }

  Status count(int64_t size) {
    ++copy_.files;
    copy_.bytes += size;
    if (copy_.files <= limits_.files && copy_.bytes <= limits_.bytes) return ok();
    auto largest = std::max_element(top_bytes_.begin(), top_bytes_.end(),
                                    [](const auto& a, const auto& b) { return a.second < b.second; });
    return invalid("the code folder is too large to take along: more than " + std::to_string(limits_.files) +
                   " files or " + std::to_string(limits_.bytes >> 20) + " MiB, most of it in '" +
                   largest->first +
                   "'; put the script into a folder of its own, and data into --input NAME=DIR");
  }

  Status link(const std::string& from, const std::string& to) {
    if (!write_) return count(0);
    std::string target(4096, 0);
    ssize_t n = ::readlink(from.c_str(), target.data(), target.size());
    if (n < 0) return errno_error("reading the link " + from, errno);
    target.resize(static_cast<size_t>(n));
    if (::symlink(target.c_str(), to.c_str()) != 0) return errno_error("making the link " + to, errno);
    return count(0);
  }

  const std::vector<std::string>& skip_;
  const CodeLimits& limits_;
  bool write_;
  CodeCopy copy_;
  std::map<std::string, int64_t> top_bytes_;  // by first part of the relative path
};

}  // namespace

Result<CodeCopy> copy_code(const std::string& from, const std::string& to,
                           const std::vector<std::string>& skip, const CodeLimits& limits) {
  // Counted first: a folder that is too large costs a walk, not a copy.
  STOKER_TRY(Copier(skip, limits, false).folder(from, to, "", 0));
  Copier copier(skip, limits, true);
  STOKER_TRY(copier.folder(from, to, "", 0));
  return copier.done();
}

Result<CodeCopy> copy_program(const std::string& folder, const std::string& name, const std::string& to) {
  const std::string from = folder + "/" + name;
  struct stat st;
  if (::stat(from.c_str(), &st) != 0) return errno_error("looking at " + from, errno);
  STOKER_TRY(copy_file(from, to + "/" + name, st.st_mode, 0));
  return CodeCopy{1, st.st_size, {"the rest of " + folder + "/"}};
}

}  // namespace stoker::control
