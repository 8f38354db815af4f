// SPDX-License-Identifier: Apache-2.0
// Addresses for the instances of a job on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker::control {

// A /24 out of 10.192.0.0/10 as its first three numbers ("10.200.7."), in use by no interface of this machine
// and not among `taken`. Two servers draw from 16384 at random; the kernel's interfaces settle the rest.
std::string pick_subnet(uint64_t random, const std::vector<std::string>& taken);

}  // namespace stoker::control
