// SPDX-License-Identifier: Apache-2.0
// Where stoker keeps its things on this machine; the server and its clients must agree on it.
#pragma once

#include <string>

#include "base/result.h"

namespace stoker {

// $STOKER_HOME, else $XDG_DATA_HOME/stoker, else ~/.local/share/stoker, where ~ is root's own for root.
// Absolute, and without links as far as it is there.
Result<std::string> stoker_home();
// home/run/server.sock; where that is too long for a socket, one in a private folder under /tmp. Instances
// see neither: our home is hidden from them and their /tmp is their own.
std::string server_socket(const std::string& home);

}  // namespace stoker
