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

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "base/result.h"

namespace stoker::pipeline {

class Plan;
class OtherFormats;
struct PictureCacheOptions;

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

// What samples cost, by stage, in ns of the thread's CPU. One sample in 16 is timed, or fewer,
// since reading a clock costs as much as a quick row; times are those of the timed ones alone.
struct StageTimes {
  static constexpr size_t kOps = 48;  // ops after these count as the last
  uint64_t samples = 0;
  uint64_t read_bytes = 0;
  uint64_t skipped = 0, substituted = 0;  // of samples: damaged ones, as the plan's on_error has it
  uint64_t other_formats = 0;             // of samples: pictures that another decoder read
  uint64_t busy_ns = 0;  // wall, of all samples, reading's waits too; counted by who runs them
  uint64_t timed = 0;
  uint64_t read_ns = 0;
  uint64_t decode_ns = 0;
  uint64_t pass_ns = 0;                // over decoded pixels: crop, resize, flip, to float
  uint64_t hash_ns = 0;                // counted by who hashes
  std::array<uint64_t, kOps> op_ns{};  // what an op takes beside that pass, in order of Producer::ops()

  StageTimes& operator+=(const StageTimes& other);
  uint8_t timed_bits = 4;
  bool times_next() const { return samples * 0x9e3779b97f4a7c15 >> (64 - timed_bits) == 0; }  // scattered
  // For rows that take less than a microsecond: one in 128.
  void rarely_timed() { timed_bits = 7; }
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
  // Names of the stages after reading, for people: first those of op_ns, then what the pass is made of.
  struct OpNames {
    std::vector<std::string> ops;
    std::string pass;  // "": there is none
  };
  virtual OpNames ops() const { return {}; }
  // Whether a row takes less than a microsecond, of which reading clocks for one in 16 would be a part.
  virtual bool quick() const { return false; }
  // Tells the kernel that these items will be read soon. Cheap; may do nothing.
  virtual void will_need(std::span<const SampleRef> refs) const { (void)refs; }
  // This sample is made next in this thread, after the one that was made last: what costs no time may be done
  // for it.
  virtual void comes_next(SampleRef ref) const { (void)ref; }
};

// {"samples", "skipped", "substituted", "read_bytes", "made_bytes", "busy_s", "stages": [{"name",
// "cpu_s"}…]}: of all samples, as far as the timed ones stand for them.
Json to_json(const StageTimes& times, const Producer& producer);

// Opens a plan of kind `native`. `attachment` is what travels beside a plan: here the bytes of its manifest,
// or nothing when the manifest is in this machine's cache or can be made again by listing the plan's root
// (its hash must match). Refuses (kUnsupported) a plan whose libraries are not those of this program.
// `cache`: what is kept of its pictures on this machine, of kind "" nothing; no byte of a sample depends on
// it. `others` may read pictures that the image room does not; without, they are errors.
Result<std::unique_ptr<Producer>> open_native(const Plan& plan, ByteView attachment,
                                              const PictureCacheOptions& cache,
                                              std::shared_ptr<const OtherFormats> others = nullptr);
Result<std::unique_ptr<Producer>> open_native(const Plan& plan, ByteView attachment = {});

}  // namespace stoker::pipeline
