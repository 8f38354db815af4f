// SPDX-License-Identifier: Apache-2.0
#include "image/resized_crop.h"

#include <cstring>
#include <type_traits>

#include "image/decode.h"
#include "image/png_reader.h"
#include "image/resample.h"
#include "image/workspace_parts.h"

namespace stoker::image {
namespace {

// Mirrors, converts and writes finished rows to where the caller wants them.
class OutputSink final : public RowSink {
 public:
  OutputSink(const PixelOutput& output, Size size, bool flip, const Kernels& kernels)
      : output_(output), size_(size), flip_(flip), kernels_(kernels) {}

  void put(const uint8_t* row) override {
    std::visit([&](const auto& place) { write(row, place); }, output_);
    ++y_;
  }

 private:
  void write(const uint8_t* row, const HwcBytes& place) {
    uint8_t* to = place.data + y_ * (place.stride != 0 ? place.stride : 3 * ptrdiff_t{size_.width});
    if (flip_) {
      kernels_.mirror(row, size_.width, to);
    } else {
      std::memcpy(to, row, 3 * size_t(size_.width));
    }
  }
  void write(const uint8_t* row, const ChwBytes& place) {
    uint8_t* at = place.data + y_ * size_.width;
    uint8_t* const planes[3] = {at, at + plane(), at + 2 * plane()};
    kernels_.to_planes(row, size_.width, flip_, planes);
  }
  void write(const uint8_t* row, const ChwFloats& place) {
    float* at = place.data + y_ * size_.width;
    float* const planes[3] = {at, at + plane(), at + 2 * plane()};
    kernels_.to_floats(row, size_.width, flip_, place.table->map(), planes);
  }
  ptrdiff_t plane() const { return ptrdiff_t{size_.width} * size_.height; }

  PixelOutput output_;
  Size size_;
  bool flip_;
  const Kernels& kernels_;
  ptrdiff_t y_ = 0;
};

Status check(const ResizedCrop& params, Size picture) {
  if (!inside(params.crop, picture)) return invalid("crop outside of the picture");
  if (params.size.width <= 0 || params.size.height <= 0) return invalid("resize to nothing");
  if (int64_t{params.size.width} * params.size.height > kMaxPixels)
    return invalid("resize to too many pixels");
  if (!inside(params.written(), params.size)) return invalid("window outside of the resized picture");
  return ok();
}

ResamplePlan plan_of(const ResizedCrop& params, Workspace& workspace) {
  bool vertical = vertical_first(params.order, params.crop.size(), params.size);
  ResamplePlan plan = plan_resample(params.crop.size(), params.size, params.written(), vertical, workspace);
  plan.source.left += params.crop.left;
  plan.source.top += params.crop.top;
  return plan;
}

Status run(const ResizedCrop& params, const ResamplePlan& plan, const PixelOutput& output, RowSource& source,
           Workspace& workspace) {
  OutputSink sink(output, params.written().size(), params.flip, *workspace.parts().kernels);
  STOKER_TRY(resample(plan, source, sink, workspace));
  return source.finish();
}

}  // namespace

Status decode_resized_crop(ByteView data, const ResizedCrop& params, const PixelOutput& output,
                           Workspace& workspace) {
  workspace.parts().notes = {};
  STOKER_ASSIGN(Header header, read_header(data));
  STOKER_TRY(check(params, header.size()));
  ResamplePlan plan = plan_of(params, workspace);
  if (header.format == Format::kJpeg) {
    STOKER_ASSIGN(JpegRows rows, JpegRows::open(data, plan.source, plan.keep, workspace));
    return run(params, plan, output, rows, workspace);
  }
  STOKER_ASSIGN(ImageView region, decode_region(data, plan.source, workspace));
  STOKER_ASSIGN(ViewRows rows, ViewRows::open(region, workspace));
  return run(params, plan, output, rows, workspace);
}

Status resized_crop(const ImageView& in, const ResizedCrop& params, const PixelOutput& output,
                    Workspace& workspace) {
  STOKER_TRY(check(params, in.size()));
  ResamplePlan plan = plan_of(params, workspace);
  STOKER_ASSIGN(ViewRows rows, ViewRows::open(in.crop(plan.source), workspace));
  return run(params, plan, output, rows, workspace);
}

}  // namespace stoker::image
