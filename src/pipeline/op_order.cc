// SPDX-License-Identifier: Apache-2.0
#include "image/decode.h"
#include "pipeline/geometry.h"
#include "pipeline/ops.h"

namespace stoker::pipeline {
namespace {

// What one op makes of what is known; an error text if it may not stand here.
class Next {
 public:
  Next(Known known, bool contained) : known_(known), contained_(contained) {}

  Result<Known> operator()(const DecodeRgb&) { return misplaced(); }
  Result<Known> operator()(const RandomResizedCrop& op) { return fixed(op.height, op.width); }
  Result<Known> operator()(const CenterCrop& op) { return fixed(op.height, op.width); }
  Result<Known> operator()(const RandomCrop& op) { return fixed(op.height, op.width); }
  Result<Known> operator()(const Resize& op) {
    if (op.longest != 0 && (op.height != 0 || (op.short_side != 0 && op.longest <= op.short_side)))
      return invalid("has a max_size that does not go with its size");
    if (op.height != 0) return fixed(op.height, op.width);
    if (!known_.size) return picture();
    STOKER_ASSIGN(image::Size size, resized(op, *known_.size));
    return fixed(size.height, size.width);
  }
  Result<Known> operator()(const Pad& op) {
    if (!known_.size) return picture();
    return fixed(known_.size->height + op.sides[1] + op.sides[3],
                 known_.size->width + op.sides[0] + op.sides[2]);
  }
  Result<Known> operator()(const HorizontalFlip&) { return picture(); }
  Result<Known> operator()(const VerticalFlip&) { return picture(); }
  Result<Known> operator()(const RandomRotation& op) {
    if (op.expand) known_.size.reset();
    return picture();
  }
  Result<Known> operator()(const RandomAffine& op) {
    if (op.shear[0] > op.shear[1] || op.shear[2] > op.shear[3] || op.scale[0] > op.scale[1])
      return invalid("has a range that ends before it begins");
    return picture();
  }
  Result<Known> operator()(const RandomPerspective&) { return picture(); }
  Result<Known> operator()(const Augment&) { return picture(); }
  Result<Known> operator()(const Grayscale& op) {
    if (op.channels == 2) return invalid("makes 1 or 3 channels");
    if (op.channels == 1) known_.channels = 1;
    return picture();
  }
  Result<Known> operator()(const Adjust&) { return picture(); }
  Result<Known> operator()(const ColorJitter&) { return picture(); }
  Result<Known> operator()(const GaussianBlur& op) {
    if (op.kernel[0] % 2 == 0 || op.kernel[1] % 2 == 0) return invalid("has a kernel of an even side");
    if (known_.is_planes && !known_.is_float) return misplaced();
    return known_;
  }
  Result<Known> operator()(const ToFloat&) {
    if (known_.is_planes || contained_) return misplaced();
    known_.is_planes = known_.is_float = true;
    return known_;
  }
  Result<Known> operator()(const Normalize& op) {
    if (!known_.is_float || known_.is_normalized || contained_) return misplaced();
    if (!fits(op.mean) || !fits(op.std)) return invalid("has more values than there are channels");
    known_.is_normalized = true;
    return known_;
  }
  Result<Known> operator()(const RandomErasing& op) {
    if (!known_.is_float && op.value.empty()) return invalid("of random values needs float32");
    if (!fits(op.value)) return invalid("has more values than there are channels");
    if (!known_.is_planes && contained_) return misplaced();
    known_.is_planes = true;
    return known_;
  }
  Result<Known> operator()(const RandomApply& op) { return branches({{}, op.ops}); }
  Result<Known> operator()(const RandomChoice& op) { return branches(op.branches); }
  Result<Known> operator()(const RandomOrder& op) {
    // In any order: each must leave what it found, or all of them must be indifferent to the others.
    STOKER_ASSIGN(Known once, branches(op.branches));
    if (once != known_ && op.branches.size() > 1) {
      Next again(once, contained_);
      STOKER_ASSIGN(once, again.branches(op.branches));
    }
    return once;
  }

 private:
  static Error misplaced() {
    return invalid(
        "may not stand here; the order is decode_rgb, ops on pictures, to_float, normalize, and only "
        "gaussian_blur and random_erasing after to_float");
  }
  bool fits(const std::vector<double>& values) const {
    return values.size() <= 1 || static_cast<int>(values.size()) == known_.channels;
  }
  Result<Known> picture() const {
    if (known_.is_planes) return misplaced();
    return known_;
  }
  Result<Known> fixed(int64_t height, int64_t width) {
    if (height * width > image::kMaxPixels) return invalid("makes too large a picture");
    known_.size = image::Size{static_cast<int>(width), static_cast<int>(height)};
    return picture();
  }
  // What is known whichever branch was taken.
  Result<Known> branches(const std::vector<Ops>& branches) const {
    std::optional<Known> common;
    for (const Ops& ops : branches) {
      Known after = known_;
      for (const Op& op : ops) {
        auto next = std::visit(Next(after, true), static_cast<const Op::variant&>(op));
        if (!next) return std::move(next).error().during(std::string("has in it ") + op_name(op) + ", which");
        after = *next;
      }
      if (!common) common = after;
      if (common->size != after.size) common->size.reset();
      if (common->channels != after.channels || common->is_planes != after.is_planes)
        return invalid("leaves pictures of different kinds");
    }
    return *common;
  }

  Known known_;
  bool contained_;
};

}  // namespace

Result<Known> check_ops(const Ops& ops) {
  if (ops.empty() || !std::holds_alternative<DecodeRgb>(ops[0])) return invalid("ops[0] must be decode_rgb");
  return check_ops(ops, Known{}, 1);
}

Result<Known> check_ops(const Ops& ops, Known known, size_t begin) {
  for (size_t i = begin; i < ops.size(); ++i) {
    auto next = std::visit(Next(known, false), static_cast<const Op::variant&>(ops[i]));
    if (!next) {
      Error error = std::move(next).error();
      error.code = Code::kInvalid;
      error.message = "ops[" + std::to_string(i) + "]: " + op_name(ops[i]) + " " + error.message;
      return error;
    }
    known = *next;
  }
  if (known.size) return known;
  return Error{
      Code::kUnsupported,
      "ops: they leave the picture's size open, and rows have a fixed shape; end in random_resized_crop, "
      "center_crop, random_crop or a resize to [height, width]",
      {}};
}

}  // namespace stoker::pipeline
