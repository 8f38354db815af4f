// SPDX-License-Identifier: Apache-2.0
// Hashes as Python has them: hexadecimal text.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "base/hash.h"

namespace stoker::bindings {

inline Sha256Digest plan_hash_of(const std::string& hex) {
  Sha256Digest digest{};
  if (hex.size() != 2 * digest.size()) throw nanobind::value_error("a plan hash has 64 hexadecimal digits");
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return digest;
}

}  // namespace stoker::bindings
