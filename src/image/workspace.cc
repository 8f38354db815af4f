// SPDX-License-Identifier: Apache-2.0
#include "image/workspace.h"

#include "image/workspace_parts.h"

namespace stoker::image {

Workspace::Workspace() : parts_(std::make_unique<Parts>()) {}
Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

const DecodeNotes& Workspace::notes() const { return parts_->notes; }

void Workspace::time_into(PassTimes* times) { parts_->times = times; }

size_t Workspace::bytes() const {
  size_t sum = parts_->jpeg.bytes();
  for (const Buffer* buffer : parts_->buffers()) sum += buffer->bytes();
  return sum;
}

void Workspace::trim(size_t keep) {
  if (bytes() <= keep) return;
  for (Buffer* buffer : parts_->buffers()) buffer->release();
  parts_->jpeg.release();
}

}  // namespace stoker::image
