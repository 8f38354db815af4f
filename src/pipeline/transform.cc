// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transform.h"

#include <algorithm>

#include "base/clock.h"
#include "image/decode.h"
#include "pipeline/decide.h"
#include "pipeline/mask.h"
#include "pipeline/stage.h"

namespace stoker::pipeline {
namespace {

image::PassOrder pass_order(const Plan& plan) {
  return image::pass_order_of(plan.libraries()["pillow"].as_string() == "12" ? 12 : 13);
}

// The normalize that stands right behind to_float and so becomes part of its table.
const Normalize* folded_normalize(const Ops& ops) {
  for (size_t i = 1; i < ops.size(); ++i)
    if (std::holds_alternative<ToFloat>(ops[i - 1])) return std::get_if<Normalize>(&ops[i]);
  return nullptr;
}

std::unique_ptr<const image::NormalizeTable> make_table(const Ops& ops, bool is_float) {
  if (!is_float) return nullptr;
  auto rule = image::ToFloat::kUnscaled;
  for (const Op& op : ops) {
    if (auto to_float = std::get_if<ToFloat>(&op)) {
      if (to_float->rule == ToFloat::kV1) rule = image::ToFloat::kDivide;
      if (to_float->rule == ToFloat::kV2) rule = image::ToFloat::kMultiply;
    }
  }
  std::optional<image::MeanStd> normalize;
  if (const Normalize* op = folded_normalize(ops)) {
    auto of = [](const std::vector<double>& values) {
      return std::array{values.front(), values[values.size() / 2], values.back()};  // one stands for all
    };
    normalize = image::MeanStd{of(op->mean), of(op->std)};
  }
  return std::make_unique<image::NormalizeTable>(rule, normalize);
}

image::Gray16 gray16_of(const Ops& ops) {
  const auto* decode = ops.empty() ? nullptr : std::get_if<DecodeRgb>(&ops[0]);
  return decode != nullptr ? decode->gray16 : image::Gray16::kClip;
}

// Part of the pass over decoded pixels, unless something that needs pixels stands in between.
bool in_pass(const Op& op) {
  return std::visit(
      [](const auto& one) {
        using T = std::decay_t<decltype(one)>;
        return std::is_same_v<T, RandomResizedCrop> || std::is_same_v<T, Resize> ||
               std::is_same_v<T, CenterCrop> || std::is_same_v<T, RandomCrop> || std::is_same_v<T, Pad> ||
               std::is_same_v<T, HorizontalFlip> || std::is_same_v<T, VerticalFlip> ||
               std::is_same_v<T, ToFloat>;
      },
      op);
}

// Times what the actions of one sample take, apart from the passes, which time themselves.
class OpTimer {
 public:
  OpTimer(StageTimes& times, const std::vector<size_t>& op_of, image::Workspace& workspace)
      : times_(times), op_of_(op_of), workspace_(workspace), last_ns_(thread_cpu_ns()) {
    workspace_.time_into(&passes_);
  }
  ~OpTimer() {
    workspace_.time_into(nullptr);
    times_.decode_ns += static_cast<uint64_t>(passes_.decode_ns);
    times_.pass_ns += static_cast<uint64_t>(passes_.whole_ns - passes_.decode_ns);
  }
  void done(size_t action) {
    int64_t now = thread_cpu_ns();
    int64_t own = now - last_ns_ - (passes_.whole_ns - last_passes_ns_);
    size_t op = std::min(op_of_[action], StageTimes::kOps - 1);
    times_.op_ns[op] += static_cast<uint64_t>(std::max<int64_t>(0, own));
    last_ns_ = now;
    last_passes_ns_ = passes_.whole_ns;
  }

 private:
  StageTimes& times_;
  const std::vector<size_t>& op_of_;
  image::Workspace& workspace_;
  image::PassTimes passes_;
  int64_t last_ns_, last_passes_ns_ = 0;
};

}  // namespace

SampleRandom draws_of(uint64_t key, SampleRef ref, size_t op) {
  return SampleRandom(key, ref.position, static_cast<uint32_t>(op));
}

PictureTransform::PictureTransform(Ops ops, const Known& after, const Plan& plan)
    : ops_(std::move(ops)),
      after_(after),
      gray16_(gray16_of(ops_)),
      key_(seed_key(plan.seed())),
      order_(pass_order(plan)),
      table_(make_table(ops_, after.is_float)),
      table_normalizes_(folded_normalize(ops_) != nullptr) {
  CHECK(after_.size);
}

Leaf PictureTransform::leaf(std::string name) const {
  image::Size size = *after_.size;
  DType dtype = after_.is_float ? DType::kFloat32 : DType::kUint8;
  Leaf leaf{std::move(name), dtype, {after_.channels, size.height, size.width}, dtype_size(dtype)};
  for (int64_t side : leaf.shape) leaf.row_bytes *= static_cast<uint64_t>(side);
  return leaf;
}

Leaf PictureTransform::mask_leaf(DType dtype) const {
  image::Size size = *after_.size;
  Leaf leaf{"mask", dtype, {size.height, size.width}, dtype_size(dtype)};
  for (int64_t side : leaf.shape) leaf.row_bytes *= static_cast<uint64_t>(side);
  return leaf;
}

Row PictureTransform::row_at(uint8_t* out) const {
  return {out, *after_.size, after_.channels, table_.get(), table_normalizes_};
}

Producer::OpNames PictureTransform::names() const {
  Producer::OpNames names;
  for (const Op& op : ops_) {
    auto normalize = std::get_if<Normalize>(&op);
    bool folded = normalize != nullptr && normalize == folded_normalize(ops_);
    bool decode = std::holds_alternative<DecodeRgb>(op);
    bool pass = folded || in_pass(op);
    names.ops.push_back(pass || decode ? "" : op_name(op));
    if (pass) names.pass += (names.pass.empty() ? "" : " + ") + std::string(op_name(op));
  }
  if (names.pass.empty()) names.pass = "write";
  return names;
}

Status PictureTransform::decide_all(SampleRef ref, image::Size size, Scratch::Buffers& buffers) const {
  buffers.actions.clear();
  buffers.op_of.clear();
  for (size_t i = 0; i < ops_.size(); ++i) {
    SampleRandom draws = draws_of(key_, ref, i);
    STOKER_TRY(decide(ops_[i], draws, size, buffers.actions));
    buffers.op_of.resize(buffers.actions.size(), i);
  }
  return ok();
}

Status PictureTransform::run(Stage& stage, uint8_t* out, Scratch& scratch, bool timed) const {
  Scratch::Buffers& buffers = scratch.buffers();
  if (!timed) return apply(buffers.actions, stage, row_at(out));
  OpTimer timer(scratch.times, buffers.op_of, buffers.workspace);
  return apply(buffers.actions, stage, row_at(out), [&](size_t action) { timer.done(action); });
}

Status PictureTransform::encoded(SampleRef ref, const image::StoredPicture& stored, uint8_t* out,
                                 Scratch& scratch, bool timed) const {
  Scratch::Buffers& buffers = scratch.buffers();
  STOKER_ASSIGN(image::Header header, image::header_of(stored));
  STOKER_TRY(decide_all(ref, header.size(), buffers));
  buffers.picture = header.size();
  image::StoredPicture picture = stored;
  picture.gray16 = gray16_;
  Stage stage(picture, header.size(), order_, buffers.workspace, buffers.pictures);
  return run(stage, out, scratch, timed);
}

Status PictureTransform::pixels(SampleRef ref, const image::ImageView& picture, uint8_t* out,
                                Scratch& scratch, bool timed) const {
  Scratch::Buffers& buffers = scratch.buffers();
  STOKER_TRY(decide_all(ref, picture.size(), buffers));
  buffers.picture = picture.size();
  Stage stage(picture, order_, buffers.workspace, buffers.pictures);
  return run(stage, out, scratch, timed);
}

Status PictureTransform::mask(ByteView file, DType dtype, uint8_t* out, Scratch::Buffers& buffers) const {
  STOKER_ASSIGN(image::Header header, image::read_header(file));
  image::Size size = header.size();
  if (size != buffers.picture) {
    auto text = [](image::Size one) {
      return std::to_string(one.width) + " x " + std::to_string(one.height);
    };
    Error error{Code::kData, "the mask is " + text(size) + ", its picture " + text(buffers.picture), {}};
    error.fault = DataFault{"corrupt", "", -1};
    return error;
  }
  buffers.mask.resize(3 * static_cast<size_t>(size.width) * static_cast<size_t>(size.height));
  image::MutableImageView numbers = image::packed(buffers.mask.data(), size);
  STOKER_TRY(image::decode_numbers_into(file, numbers, buffers.workspace));
  Stage stage(numbers, order_, buffers.workspace, buffers.pictures);
  STOKER_TRY(apply_to_mask(buffers.actions, stage));
  STOKER_ASSIGN(image::ImageView made, stage.view());
  if (made.size() != *after_.size) return internal("the ops made a mask of another size than the plan says");
  return write_numbers(made, dtype, out);
}

}  // namespace stoker::pipeline
