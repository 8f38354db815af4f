// SPDX-License-Identifier: Apache-2.0
// Producer: an opened plan that makes samples. sample = f(plan, position, item) and nothing else, so any
// thread of any worker gives the same bytes.
//
// Layout of what it makes: a row per sample, cut into leaves (image, label). The caller owns the memory and
// may place each leaf anywhere; a batch usually keeps the rows of one leaf together.
//
// Errors of produce():
//   kData         the stored bytes are damaged; `fault` names kind, file and offset. Another worker will find
//   the same. kUnavailable  the bytes could not be read (here, now); ask another worker or again. Never a bad
//   sample. kInvalid      the request is wrong (item out of range).
// Messages name position and item. On an error the row's bytes are unspecified.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stoker::pipeline {

class Plan;

enum class DType : uint8_t {
  kUint8,
  kInt64,
  kFloat32,
  kBool,
  kInt8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kUint64,
  kFloat16,
  kFloat64,
};

const char* dtype_name(DType dtype);  // NumPy's name
uint64_t dtype_size(DType dtype);
std::optional<DType> dtype_named(std::string_view name);
std::optional<DType> dtype_of_numpy(std::string_view code);  // "<f4", "|u1": little-endian only

struct Leaf {
  std::string name;
  DType dtype = DType::kUint8;
  std::vector<int64_t> shape;  // of one row; empty for a scalar
  uint64_t row_bytes = 0;
  bool operator==(const Leaf&) const = default;
};

struct RowLayout {
  std::vector<Leaf> leaves;
  uint64_t row_bytes() const;  // sum over leaves
  bool operator==(const RowLayout&) const = default;
};

// Position in the endless stream of epochs decides the random numbers; item says which stored sample.
struct SampleRef {
  uint64_t position = 0;
  uint64_t item = 0;
  bool operator==(const SampleRef&) const = default;
};

// Time spent by stage, in ns of the thread's CPU (read: wall, since it waits).
struct StageTimes {
  uint64_t samples = 0;
  uint64_t read_ns = 0;
  uint64_t transform_ns = 0;  // decode and everything after it
  uint64_t read_bytes = 0;
  StageTimes& operator+=(const StageTimes& other);
};

// Buffers that one thread reuses from sample to sample. Confined.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(Scratch&&) noexcept;
  struct Buffers;  // the room's own
  Buffers& buffers() { return *buffers_; }
  StageTimes times;

 private:
  std::unique_ptr<Buffers> buffers_;
};

// Shared: any thread, const.
class Producer {
 public:
  virtual ~Producer() = default;
  virtual const RowLayout& layout() const = 0;
  virtual uint64_t items() const = 0;
  // Writes the row: leaf_rows[k] points at layout().leaves[k].row_bytes writable bytes, aligned to its dtype.
  virtual Status produce(SampleRef ref, std::span<uint8_t* const> leaf_rows, Scratch& scratch) const = 0;
  // Tells the kernel that these items will be read soon. Cheap; may do nothing.
  virtual void will_need(std::span<const SampleRef> refs) const { (void)refs; }
};

// Opens a plan of kind `native`. `attachment` is what travels beside a plan: here the bytes of its manifest,
// or nothing when the manifest is in this machine's cache or can be made again by listing the plan's root
// (its hash must match). Refuses (kUnsupported) a plan whose libraries are not those of this program.
Result<std::unique_ptr<Producer>> open_native(const Plan& plan, ByteView attachment = {});

}  // namespace stoker::pipeline
