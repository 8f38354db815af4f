// SPDX-License-Identifier: Apache-2.0
// The walk behind image_folder.h: every directory it visits, with what tells whether it has changed since.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/manifest.h"

namespace stoker::pipeline {

// What stat says of a directory; equal stamps mean that no entry came, went or was renamed in between.
struct DirectoryStamp {
  std::string path;  // relative to the root; "" is the root
  uint64_t device = 0, inode = 0;
  int64_t mtime_ns = 0, ctime_ns = 0;
  bool operator==(const DirectoryStamp&) const = default;
};
Result<DirectoryStamp> stamp_directory(const std::string& root, const std::string& path);

struct FolderWalk {
  ManifestBuilder manifest;
  std::vector<std::string> warnings;
  std::vector<DirectoryStamp> directories;
  bool links_to_files = false;  // a link to anything but a directory was seen
};
Result<FolderWalk> walk_image_folder(const std::string& root, bool allow_empty_classes);

}  // namespace stoker::pipeline
