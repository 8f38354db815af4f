// SPDX-License-Identifier: Apache-2.0
// Under which key the installation of a requirements file may be kept. Reads as whoever the calling thread
// acts as on files.
#pragma once

#include <map>
#include <string>

#include "base/result.h"

namespace stoker::agent {

struct RequirementsKey {
  std::string digest;  // of the list and of every file that it names, whatever their paths
  // False: it asks for something that may change unseen (a folder to be built, a list or repository of
  // another machine, more on disk than is worth reading), so its installation serves one job only.
  bool lasting = true;
};

// `file` in `folder`, where pip is started; `environment` is the job's own. kNotFound where there is no such
// file; a file that the list names and that is missing is pip's to complain of.
Result<RequirementsKey> requirements_key(const std::string& folder, const std::string& file,
                                         const std::map<std::string, std::string>& environment);

}  // namespace stoker::agent
