// SPDX-License-Identifier: Apache-2.0
#include "agent/requirements_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <vector>

#include "base/files.h"
#include "base/hash.h"

namespace stoker::agent {
namespace {

constexpr int64_t kMostListBytes = 1 << 20;       // of one list
constexpr int64_t kMostBytes = int64_t{1} << 29;  // of all files together
constexpr size_t kMostFiles = 4096, kMostLists = 64;
constexpr const char* kArchives[] = {".whl", ".zip",     ".tar", ".tar.gz",
                                     ".tgz", ".tar.bz2", ".tbz", ".tar.xz"};

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\r";
  size_t from = text.find_first_not_of(kSpace);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kSpace) - from + 1);
}

// Lines as pip sees them: those that end in a backslash go on in the next, comments are gone.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::string line;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view piece(text.data() + at, end - at);
    at = end + 1;
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    const bool goes_on = piece.ends_with('\\');
    line += goes_on ? piece.substr(0, piece.size() - 1) : piece;
    if (goes_on && at < text.size()) continue;
    for (size_t hash = line.find('#'); hash != std::string::npos; hash = line.find('#', hash + 1))
      if (hash == 0 || line[hash - 1] == ' ' || line[hash - 1] == '\t') {
        line.resize(hash);
        break;
      }
    if (auto left = trimmed(line); !left.empty()) lines.emplace_back(left);
    line.clear();
  }
  return lines;
}

// As a shell would split them, but for backslashes.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool begun = false;
  for (char c : line) {
    if (quote ? c == quote : c == '"' || c == '\'') {
      quote = quote ? 0 : c;
      begun = true;
    } else if (!quote && (c == ' ' || c == '\t')) {
      if (begun) words.push_back(std::move(word));
      word.clear();
      begun = false;
    } else {
      word += c;
      begun = true;
    }
  }
  if (begun) words.push_back(std::move(word));
  return words;
}

// Whether `word` is the option of this name; its value then begins in the word itself or is the next one.
bool is_option(const std::string& word, const std::string& name, std::string& value) {
  if (!word.starts_with(name)) return false;
  value = word.substr(name.size());
  if (!value.empty() && name.starts_with("--")) {
    if (value[0] != '=') return false;
    value.erase(0, 1);
  }
  return true;
}

bool is_elsewhere(const std::string& what) {
  return what.find("://") != std::string::npos && !what.starts_with("file:");
}

bool is_repository(const std::string& what) {
  for (const char* kind : {"git+", "hg+", "svn+", "bzr+"})
    if (what.starts_with(kind)) return true;
  return false;
}

// What of a requirement names a place: a URL, a path; "" where it is a name that an index knows.
std::string place(const std::string& requirement) {
  std::string text = requirement.substr(0, std::min(requirement.find(" --"), requirement.find(" ;")));
  if (size_t at = text.find('@'); at != std::string::npos) {
    std::string url(trimmed(std::string_view(text).substr(at + 1)));
    const bool named = text.substr(0, at).find_first_of("/:") == std::string::npos;
    if (named && url.find(':') != std::string::npos) return url;
  }
  text = trimmed(text);
  if (text.ends_with(']') && text.find('[') != std::string::npos) text.resize(text.rfind('['));
  const bool is_archive = std::any_of(std::begin(kArchives), std::end(kArchives),
                                      [&](const char* suffix) { return text.ends_with(suffix); });
  return text.find('/') != std::string::npos || text.starts_with('.') || is_archive ? text : "";
}

class Key {
 public:
  Key(std::string folder, const std::map<std::string, std::string>& environment)
      : folder_(std::move(folder)), environment_(environment) {
    for (const auto& [name, value] : environment)
      if (name.starts_with("PIP_")) {
        add(name + "=" + value);
        // Each names files of its own.
        if (name == "PIP_CONSTRAINT" || name == "PIP_REQUIREMENT" || name == "PIP_FIND_LINKS")
          lasting_ = false;
      }
  }

  Status list(const std::string& path) {
    if (!seen_.insert(path).second) return ok();
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return errno_error("reading " + path, errno);
    if (!S_ISREG(info.st_mode)) return invalid(path + " is not a file");
    if (info.st_size > kMostListBytes || seen_.size() > kMostLists) return give_up();
    STOKER_ASSIGN(std::string text, read_text(path));
    add(text);
    const std::string own_folder = std::filesystem::path(path).parent_path();
    for (const std::string& line : lines_of(text)) take(line, own_folder);
    return ok();
  }

  RequirementsKey done() { return {to_hex(hash_.finish()), lasting_}; }

 private:
  void add(std::string_view text) {
    hash_.update(as_bytes(std::to_string(text.size()) + ":"));
    hash_.update(as_bytes(text));
  }
  Status give_up() {
    lasting_ = false;
    return ok();
  }

  void take(const std::string& line, const std::string& own_folder) {
    if (line.find("${") != std::string::npos && !expanded_) {
      expanded_ = true;
      for (const auto& [name, value] : environment_) add(name + "=" + value);
    }
    if (line.starts_with('-')) return options(words_of(line), own_folder);
    const std::string named = place(line);
    if (named.empty()) return;
    if (is_repository(named))
      lasting_ = false;
    else if (!is_elsewhere(named))
      take_file(at(named, folder_));
  }

  void options(const std::vector<std::string>& words, const std::string& own_folder) {
    std::string value;
    auto valued = [&](size_t& i, std::initializer_list<const char*> names) {
      for (const char* name : names) {
        if (!is_option(words[i], name, value)) continue;
        if (value.empty() && i + 1 < words.size()) value = words[++i];
        return true;
      }
      return false;
    };
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word == "--no-index" || word == "--pre" || word == "--prefer-binary" || word == "--require-hashes")
        continue;
      if (valued(i, {"--index-url", "--extra-index-url", "--trusted-host", "--no-binary", "--only-binary",
                     "-i"}))
        continue;
      if (valued(i, {"--requirement", "--constraint", "-r", "-c"})) {  // beside the list that names it
        if (is_elsewhere(value) || !list(at(value, own_folder)).ok()) lasting_ = false;
      } else if (valued(i, {"--find-links", "-f"})) {
        if (is_elsewhere(value)) continue;
        take_links(at(value, own_folder));
        take_links(at(value, folder_));
      } else {
        lasting_ = false;  // an editable package, or what we do not know
      }
    }
  }

  static std::string at(std::string path, const std::string& folder) {
    if (path.starts_with("file:")) path = path.substr(path.starts_with("file://") ? 7 : 5);
    return (std::filesystem::path(folder) / path).lexically_normal();
  }

  // An archive by its content; a folder is built in place, which itself changes it.
  void take_file(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || !add_content(path, info.st_size))
      lasting_ = false;
  }

  // The archives that lie in a folder.
  void take_links(const std::string& path) {
    std::error_code failed;
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return;
    if (!S_ISDIR(info.st_mode)) return take_file(path);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path, failed))
      if (names.size() <= kMostFiles) names.push_back(entry.path().filename());
    if (failed) lasting_ = false;
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      if (!lasting_) return;
      const std::string file = path + "/" + name;
      if (::stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      add(name);
      take_file(file);
    }
  }

  bool add_content(const std::string& path, int64_t size) {
    left_ -= size;
    if (left_ < 0 || ++files_ > kMostFiles) return false;
    auto file = open_file(path, O_RDONLY | O_NONBLOCK);
    if (!file.ok()) return false;
    Sha256 content;
    std::vector<uint8_t> piece(1 << 18);
    for (int64_t rest = size; rest > 0;) {
      ssize_t n = ::read(file->get(), piece.data(), piece.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      content.update({piece.data(), static_cast<size_t>(n)});
      rest -= n;
    }
    add(to_hex(content.finish()));
    return true;
  }

  std::string folder_;
  const std::map<std::string, std::string>& environment_;
  Sha256 hash_;
  std::set<std::string> seen_;
  size_t files_ = 0;
  int64_t left_ = kMostBytes;
  bool lasting_ = true, expanded_ = false;
};

}  // namespace

Result<RequirementsKey> requirements_key(const std::string& folder, const std::string& file,
                                         const std::map<std::string, std::string>& environment) {
  Key key(folder, environment);
  STOKER_TRY(key.list((std::filesystem::path(folder) / file).lexically_normal()));
  return key.done();
}

}  // namespace stoker::agent
