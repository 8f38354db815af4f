// SPDX-License-Identifier: Apache-2.0
#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "image/kernels.h"
#include "image/resized_crop.h"

namespace stoker::image {

PassOrder pass_order_of(int pillow_major) {
  return pillow_major >= 13 ? PassOrder::kPillow13 : PassOrder::kPillow12;
}

bool vertical_first(PassOrder order, Size from, Size to) {
  if (order == PassOrder::kPillow12) return false;
  // Found by trying Pillow 13.0.0 on thousands of sizes: without exception.
  int64_t lower = int64_t{from.height} - to.height;
  int64_t narrower = int64_t{from.width} - to.width;
  return lower > 0 && lower > 2 * narrower;
}

Status resize(const ImageView& in, const MutableImageView& out, PassOrder order, Workspace& workspace,
              const Resampling& how) {
  ResizedCrop whole{.crop = {0, 0, in.width, in.height}, .size = out.size(), .order = order, .how = how};
  return resized_crop(in, whole, HwcBytes{out.data, out.stride}, workspace);
}

void flip(const ImageView& in, const MutableImageView& out) {
  for (int y = 0; y < in.height; ++y) {
    if (in.row(y) != out.row(y)) {
      kernels().mirror(in.row(y), in.width, out.row(y));
      continue;
    }
    uint8_t* left = out.row(y);
    uint8_t* right = left + 3 * (ptrdiff_t{in.width} - 1);
    for (; left < right; left += 3, right -= 3) std::swap_ranges(left, left + 3, right);
  }
}

Size resized_size(Size from, int shorter, int longest) {
  int low = std::min(from.width, from.height);
  int high = std::max(from.width, from.height);
  int longer = longest;
  if (shorter == 0) {
    shorter = int(double(int64_t{longest} * low) / high);
  } else {
    longer = int(double(int64_t{shorter} * high) / low);
    if (longest > 0 && longer > longest) {
      shorter = int(double(int64_t{longest} * shorter) / longer);
      longer = longest;
    }
  }
  return from.width <= from.height ? Size{shorter, longer} : Size{longer, shorter};
}

Box center_crop_box(Size from, Size to) {
  // A smaller picture is padded first, the odd pixel at the right and bottom; then halves round to even.
  auto begin = [](int have, int want) {
    return want > have ? -((want - have) / 2) : int(std::nearbyint((have - want) / 2.0));
  };
  return {begin(from.width, to.width), begin(from.height, to.height), to.width, to.height};
}

}  // namespace stoker::image
