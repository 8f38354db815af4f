// SPDX-License-Identifier: Apache-2.0
// Plan: the frozen description of a pipeline, as data. docs/formats/plan.md is its format. Values; any
// thread.
//
// A plan's identity is its hash, which all of it counts in but the folder of its files: a copy elsewhere is
// the same. Whoever holds equal hashes and equal files makes equal samples. It is checked once, in parse():
// an unknown op or field is refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "pipeline/array_plan.h"
#include "pipeline/ops.h"

namespace stoker::pipeline {

inline constexpr std::string_view kPlanFormat = "stoker-plan/1";

// kind: "image_folder": the manifest can be made again from root; otherwise it must be at hand. "files": an
// item is a file, as there; "members": an extent of one (tar, MDS); "tfrecord": a record of one, in whose
// tf.train.Example the two features name picture and label; "pairs": files, the manifest lists the pictures
// and then the mask of each.
struct ImageSource {
  std::string kind;
  std::string root;
  std::string manifest;  // SHA-256, hex
  uint64_t items = 0;
  std::string picture, label;  // of "tfrecord"; label "" where there is none
  DType mask = DType::kUint8;  // of "pairs": uint8 or int64

  bool has_masks() const { return kind == "pairs"; }
  uint64_t manifest_items() const { return has_masks() ? 2 * items : items; }
  bool operator==(const ImageSource&) const = default;
};

// What stands in the place of a sample whose stored bytes are damaged: an error; a row of zeros whose leaf
// `valid` is false; or another item, drawn by position and number of the try.
enum class OnError { kRaise, kSkip, kSubstitute };

struct NativePlan {
  ImageSource source;
  std::vector<Op> ops;
  bool float_output = false;  // leaf `image`: float32 [3, H, W], else uint8 [3, H, W]
  OnError on_error = OnError::kRaise;
  bool operator==(const NativePlan&) const = default;
};

// Code that runs in Python processes. The pickled (dataset, collate_fn, worker_init_fn) travels beside the
// plan as its attachment and is no part of the hash, since pickles are not canonical; these fields stand for
// it.
struct PythonPlan {
  std::string name;     // module.QualifiedClass of the dataset
  std::string code;     // hash of the job's code archive, "" outside a job
  std::string version;  // the user's own
  std::string collate;  // module.name of collate_fn
  uint64_t items = 0;
  bool operator==(const PythonPlan&) const = default;
};

class Plan {
 public:
  // Reads and checks. The result's json() is the canonical form of `text`.
  static Result<Plan> parse(std::string_view text);
  static Result<Plan> make_native(NativePlan plan, uint64_t seed, Json libraries);
  static Result<Plan> make_arrays(ArrayPlan plan, uint64_t seed, Json libraries);
  static Result<Plan> make_python(PythonPlan plan, uint64_t seed, Json libraries);

  bool is_native() const { return std::holds_alternative<NativePlan>(body_); }
  bool is_arrays() const { return std::holds_alternative<ArrayPlan>(body_); }
  bool is_python() const { return std::holds_alternative<PythonPlan>(body_); }
  const NativePlan& native() const { return std::get<NativePlan>(body_); }
  const ArrayPlan& arrays() const { return std::get<ArrayPlan>(body_); }
  const PythonPlan& python() const { return std::get<PythonPlan>(body_); }
  uint64_t seed() const { return seed_; }
  uint64_t items() const;
  const Json& libraries() const { return libraries_; }

  const std::string& json() const { return json_; }  // canonical
  const std::string& hash() const { return hash_; }  // 64 hex digits: of json() without source.root

 private:
  using Body = std::variant<NativePlan, ArrayPlan, PythonPlan>;
  Plan(Body body, uint64_t seed, Json libraries)
      : body_(std::move(body)), seed_(seed), libraries_(std::move(libraries)) {}
  Result<Plan> seal(Json body, const char* kind);
  Body body_;
  uint64_t seed_ = 0;
  Json libraries_;
  std::string json_;
  std::string hash_;
};

// What a native plan made in this process names: {"stoker": …, "libjpeg": …, "libpng": …, "pillow": "13"}.
// The last is the Pillow whose order of resize passes is followed (its major version: "12" or "13").
Json native_libraries(std::string_view pillow_major);
// kUnsupported, naming each difference, unless this program has the libraries that a native plan names.
Status check_libraries(const Plan& plan);

}  // namespace stoker::pipeline
