// SPDX-License-Identifier: Apache-2.0
// torchvision's ImageFolder as a manifest: classes are the sorted names of the root's sub-folders, each one's
// pictures come in the order of sorted(os.walk(class, followlinks=True)) with file names sorted, sorting is
// by code point, and a picture is a name that ends, in any case, in one of torchvision's nine extensions.
// Hidden names count, as there.
//
// Errors carry a DataFault: no_classes, empty_class (unless allowed), link_loop (torchvision walks such a
// loop some 40 times), unreadable. A root that is not there is kNotFound. Pure but for the file system and
// the cache.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "pipeline/manifest.h"

namespace stoker::pipeline {

struct FolderListing {
  Manifest manifest;
  std::vector<std::string> warnings;  // e.g. hidden folders that count as classes
  bool from_cache = false;
};

// Lists the tree, always.
Result<FolderListing> list_image_folder(const std::string& root, bool allow_empty_classes = false);

// The same through the cache of docs/formats/manifest.md: listed again unless no directory of the last
// listing changed. Leaves the manifest in the cache. A cache that cannot be written is no error: the listing
// is then only in memory.
Result<FolderListing> open_image_folder(const std::string& root, bool allow_empty_classes = false,
                                        const Clock& clock = system_clock());

}  // namespace stoker::pipeline
