// SPDX-License-Identifier: Apache-2.0
// Memory that grows and is kept, 64-byte aligned; its contents do not survive growing. Confined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace stoker::image {

class Buffer {
 public:
  // At least `bytes`, or nullptr if there is no memory for it.
  [[nodiscard]] uint8_t* grow(size_t bytes) {
    if (bytes > bytes_) {
      size_t wanted = (bytes + bytes / 4 + 4095) / 4096 * 4096;
      data_.reset();
      bytes_ = 0;
      data_.reset(static_cast<uint8_t*>(std::aligned_alloc(64, wanted)));
      if (!data_) return nullptr;
      bytes_ = wanted;
    }
    return data_.get();
  }
  size_t bytes() const { return bytes_; }
  void release() {
    data_.reset();
    bytes_ = 0;
  }

 private:
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  size_t bytes_ = 0;
};

inline size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

}  // namespace stoker::image
