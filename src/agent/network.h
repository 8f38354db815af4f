// SPDX-License-Identifier: Apache-2.0
// The job's network on this machine: the way out of it. Which addresses it has is the server's choice.
#pragma once

#include <string>

#include "base/result.h"

namespace stoker::agent {

// Lets the instances behind `bridge` open connections to the outside, and keeps everybody else from opening
// connections to them. kUnsupported where neither nft nor iptables works.
Status open_egress(const std::string& bridge, const std::string& subnet);
Status close_egress(const std::string& bridge, const std::string& subnet);  // nothing there is fine

std::string netmask(int prefix);
Result<std::string> subnet_of(const std::string& address, int prefix);  // 10.77.3.9, 24 -> 10.77.3.0/24

}  // namespace stoker::agent
