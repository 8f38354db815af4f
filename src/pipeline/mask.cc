// SPDX-License-Identifier: Apache-2.0
#include "pipeline/mask.h"

#include "base/bytes.h"

namespace stoker::pipeline {
namespace {

std::array<uint8_t, 3> pixel_of(int64_t number) {
  return {static_cast<uint8_t>(number), static_cast<uint8_t>(number >> 8), 0};
}

class ApplyToMask {
 public:
  explicit ApplyToMask(Stage& stage) : stage_(stage) {}

  Status operator()(const CropTo& action) {
    image::Border border = action.border;
    border.fill = pixel_of(action.mask_fill);
    return stage_.crop(action.box, border);
  }
  Status operator()(const ResizeTo& action) {
    return stage_.resize(action.size, {image::Filter::kNearest, true});
  }
  Status operator()(const Mirror& action) {
    stage_.mirror(action.vertical);
    return ok();
  }
  Status operator()(const WarpTo& action) {
    STOKER_ASSIGN(Stage::Copy both, stage_.copy(action.size));
    image::Warp map = action.map;
    map.bilinear = false;
    map.fill = pixel_of(action.mask_fill);
    image::warp(both.from, map, both.to);
    return ok();
  }
  template <typename Other>
  Status operator()(const Other&) {
    return ok();
  }

 private:
  Stage& stage_;
};

Error too_large(int number) {
  Error error{
      Code::kData, "class " + std::to_string(number) + " does not fit uint8; ask for int64 masks", {}};
  error.fault = DataFault{"too_large", "", -1};
  return error;
}

}  // namespace

Status apply_to_mask(const Actions& actions, Stage& stage) {
  for (const Action& action : actions) STOKER_TRY(std::visit(ApplyToMask(stage), action));
  return ok();
}

Status write_numbers(const image::ImageView& mask, DType dtype, uint8_t* out) {
  for (int y = 0; y < mask.height; ++y) {
    const uint8_t* in = mask.row(y);
    for (int x = 0; x < mask.width; ++x, in += 3) {
      int number = in[0] | in[1] << 8;
      if (dtype == DType::kInt64) {
        store_le(out, int64_t{number});
        out += 8;
      } else if (number <= 255) {
        *out++ = static_cast<uint8_t>(number);
      } else {
        return too_large(number);
      }
    }
  }
  return ok();
}

}  // namespace stoker::pipeline
