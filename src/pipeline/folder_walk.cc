// SPDX-License-Identifier: Apache-2.0
#include "pipeline/folder_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "pipeline/python_order.h"

namespace stoker::pipeline {
namespace {

constexpr std::string_view kExtensions[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                            ".pgm", ".tif",  ".tiff", ".webp"};

bool is_picture(std::string_view name) {
  auto ends = [&](std::string_view extension) {
    if (name.size() < extension.size()) return false;
    std::string_view tail = name.substr(name.size() - extension.size());
    return std::equal(tail.begin(), tail.end(), extension.begin(),
                      [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
  };
  return std::any_of(std::begin(kExtensions), std::end(kExtensions), ends);
}

Error fault(const char* kind, const std::string& path, std::string message) {
  Error error{Code::kData, std::move(message), {}};
  error.fault = DataFault{kind, path, -1};
  return error;
}

Error unreadable(const std::string& path, int err) {
  if (err == ENOTDIR)
    return invalid(path + " is a file; what is wanted is the folder that holds a folder per class");
  Error error = errno_error("listing " + path, err);
  if (error.code != Code::kNotFound) error.fault = DataFault{"unreadable", path, -1};
  return error;
}

int64_t in_ns(const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; }

DirectoryStamp stamp_of(std::string path, const struct stat& st) {
  return {std::move(path), st.st_dev, st.st_ino, in_ns(st.st_mtim), in_ns(st.st_ctim)};
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

class Walker {
 public:
  Walker(const std::string& root, FolderWalk& out) : root_(root), out_(out) {}

  // Reads one directory and remembers its stamp. `path` is relative to the root.
  struct Entries {
    std::vector<std::string> directories, others;
  };
  Result<Entries> read(const std::string& path) {
    std::string full = absolute(path);
    std::unique_ptr<DIR, CloseDirectory> directory(opendir(full.c_str()));
    struct stat st;
    if (!directory || fstat(dirfd(directory.get()), &st) != 0) return unreadable(full, errno);
    out_.directories.push_back(stamp_of(path, st));
    Entries entries;
    while (true) {
      errno = 0;
      dirent* entry = readdir(directory.get());
      if (!entry && errno != 0) return unreadable(full, errno);
      if (!entry) return entries;
      std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      STOKER_ASSIGN(bool is_directory, leads_to_directory(dirfd(directory.get()), *entry, full));
      (is_directory ? entries.directories : entries.others).emplace_back(name);
    }
  }

  // The pictures of a class: every directory under it, sorted by its whole path.
  Result<uint64_t> walk_class(const std::string& name, int64_t label) {
    struct Pictures {
      std::string directory;
      std::vector<std::string> names;
    };
    std::vector<Pictures> found;
    auto collect = [&](auto& self, const std::string& path) -> Status {
      STOKER_ASSIGN(Entries entries, read(path));
      const DirectoryStamp here = out_.directories.back();
      for (const DirectoryStamp& above : ancestors_) {
        if (above.device == here.device && above.inode == here.inode)
          return fault("link_loop", absolute(path),
                       "link loop: " + absolute(path) + " leads back to " + absolute(above.path) +
                           ", which it lies in");
      }
      std::erase_if(entries.others, [](const std::string& file) { return !is_picture(file); });
      found.push_back({path, std::move(entries.others)});
      ancestors_.push_back(here);
      for (const std::string& directory : entries.directories) STOKER_TRY(self(self, path + "/" + directory));
      ancestors_.pop_back();
      return ok();
    };
    STOKER_TRY(collect(collect, name));
    std::sort(found.begin(), found.end(),
              [](const Pictures& a, const Pictures& b) { return less_as_python(a.directory, b.directory); });
    uint64_t count = 0;
    for (Pictures& pictures : found) {
      std::sort(pictures.names.begin(), pictures.names.end(), less_as_python);
      for (const std::string& file : pictures.names)
        out_.manifest.add(pictures.directory + "/" + file, label);
      count += pictures.names.size();
    }
    return count;
  }

  void remember_root() { ancestors_.assign(1, out_.directories.front()); }
  std::string absolute(const std::string& path) const { return path.empty() ? root_ : root_ + "/" + path; }

 private:
  // As os.DirEntry.is_dir(): links are followed, one that leads nowhere is no directory.
  Result<bool> leads_to_directory(int at, const dirent& entry, const std::string& folder) {
    if (entry.d_type == DT_DIR) return true;
    if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return false;
    struct stat st;
    if (fstatat(at, entry.d_name, &st, 0) != 0) {
      if (errno == ELOOP) {
        std::string path = folder + "/" + entry.d_name;
        return fault("link_loop", path, "link loop: " + path + " leads to itself");
      }
      out_.links_to_files = true;
      return false;
    }
    if (S_ISDIR(st.st_mode)) return true;
    if (entry.d_type == DT_LNK) out_.links_to_files = true;
    return false;
  }

  const std::string& root_;
  FolderWalk& out_;
  std::vector<DirectoryStamp> ancestors_;
};

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

}  // namespace

Result<DirectoryStamp> stamp_directory(const std::string& root, const std::string& path) {
  std::string full = path.empty() ? root : root + "/" + path;
  struct stat st;
  if (stat(full.c_str(), &st) != 0) return errno_error("looking at " + full, errno);
  return stamp_of(path, st);
}

Result<FolderWalk> walk_image_folder(const std::string& root, bool allow_empty_classes) {
  FolderWalk out;
  Walker walker(root, out);
  STOKER_ASSIGN(Walker::Entries top, walker.read(""));
  walker.remember_root();
  std::vector<std::string>& classes = top.directories;
  if (classes.empty())
    return fault("no_classes", root, "no class folders in " + root + ": its sub-folders are the classes");
  std::sort(classes.begin(), classes.end(), less_as_python);

  std::vector<std::string> empty;
  for (size_t label = 0; label < classes.size(); ++label) {
    out.manifest.add_class(classes[label]);
    STOKER_ASSIGN(uint64_t pictures, walker.walk_class(classes[label], static_cast<int64_t>(label)));
    if (pictures == 0) empty.push_back(classes[label]);
    if (classes[label][0] == '.')
      out.warnings.push_back("hidden folder counts as a class, as in ImageFolder: " +
                             walker.absolute(classes[label]));
  }
  if (!empty.empty() && !allow_empty_classes) {
    return fault("empty_class", walker.absolute(empty[0]),
                 "no pictures for the classes " + joined(empty) + " in " + root +
                     "; remove them, or allow empty classes");
  }
  return out;
}

}  // namespace stoker::pipeline
