// SPDX-License-Identifier: Apache-2.0
#include "pipeline/scratch_buffers.h"

namespace stoker::pipeline {
namespace {

constexpr size_t kKeepBytes = 64 << 20;

void shrink_one(std::vector<uint8_t>& buffer) {
  if (buffer.capacity() > kKeepBytes) std::vector<uint8_t>().swap(buffer);
}

}  // namespace

Scratch::Scratch() : buffers_(std::make_unique<Buffers>()) {}
Scratch::~Scratch() = default;
Scratch::Scratch(Scratch&&) noexcept = default;

void Scratch::Buffers::shrink() {
  shrink_one(file);
  shrink_one(mask);
  shrink_one(cached);
  shrink_one(cached_rows);
  shrink_one(other_picture);
  shrink_one(pictures[0]);
  shrink_one(pictures[1]);
  workspace.trim(kKeepBytes);
}

}  // namespace stoker::pipeline
