// SPDX-License-Identifier: Apache-2.0
// What a Python interpreter finds installed. Reads as whoever the calling thread acts as on files.
#pragma once

#include <string>
#include <vector>

namespace stoker::agent {

// A program for `python -c`: prints the folders where that interpreter looks for packages, a line each, its
// own library left out.
extern const char* const kPrintPackageFolders;

// The folders in what that program printed, in order; anything else that was printed is none.
std::vector<std::string> package_folders(const std::string& printed);

// One text for the same packages in the same versions in the same folders, another for others.
std::string installed_in(const std::vector<std::string>& folders);

}  // namespace stoker::agent
