// SPDX-License-Identifier: Apache-2.0
#include "image/resized_crop.h"

#include <cstring>
#include <type_traits>
#include <vector>

#include "image/decode.h"
#include "image/png_reader.h"
#include "image/resample.h"
#include "image/workspace_parts.h"

namespace stoker::image {
namespace {

// Mirrors, converts and writes finished rows to where the caller wants them.
class OutputSink final : public RowSink {
 public:
  OutputSink(const PixelOutput& output, const ResizedCrop& params, const Kernels& kernels)
      : output_(output),
        size_(params.written().size()),
        flip_(params.flip),
        kernels_(kernels),
        y_(params.upside_down ? size_.height - 1 : 0),
        step_(params.upside_down ? -1 : 1) {}

  void put(const uint8_t* row) override {
    std::visit([&](const auto& place) { write(row, place); }, output_);
    y_ += step_;
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
    uint8_t* const* rows = rows_of(place.data, place.channels, planes_);
    kernels_.to_planes(row, size_.width, flip_, rows);
  }
  void write(const uint8_t* row, const ChwFloats& place) {
    float* const* rows = rows_of(place.data, place.channels, float_planes_);
    kernels_.to_floats(row, size_.width, flip_, place.table->map(), rows);
  }
  // Where the row goes in each plane; planes that nobody wants share a row that is thrown away.
  template <typename T>
  T* const* rows_of(T* data, int channels, T* (&planes)[3]) {
    if (channels < 3 && unwanted_.empty()) unwanted_.resize(sizeof(T) * size_t(size_.width));
    for (int c = 0; c < 3; ++c) {
      ptrdiff_t at = (ptrdiff_t{c} * size_.height + y_) * size_.width;
      planes[c] = c < channels ? data + at : reinterpret_cast<T*>(unwanted_.data());
    }
    return planes;
  }

  PixelOutput output_;
  Size size_;
  bool flip_;
  const Kernels& kernels_;
  ptrdiff_t y_;
  ptrdiff_t step_;
  uint8_t* planes_[3];
  float* float_planes_[3];
  std::vector<uint8_t> unwanted_;
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
  bool vertical = !params.how.tensor && vertical_first(params.order, params.crop.size(), params.size);
  ResamplePlan plan =
      plan_resample(params.crop.size(), params.size, params.written(), params.how, vertical, workspace);
  plan.source.left += params.crop.left;
  plan.source.top += params.crop.top;
  return plan;
}

Status run(const ResizedCrop& params, const ResamplePlan& plan, const PixelOutput& output, RowSource& source,
           Workspace& workspace) {
  OutputSink sink(output, params, *workspace.parts().kernels);
  STOKER_TRY(resample(plan, source, sink, workspace));
  return source.finish();
}

}  // namespace

Status decode_resized_crop(const StoredPicture& picture, const ResizedCrop& params, const PixelOutput& output,
                           Workspace& workspace) {
  TimedPart timed(workspace.parts(), &PassTimes::whole_ns);
  workspace.parts().notes = {};
  STOKER_ASSIGN(Header header, header_of(picture));
  STOKER_TRY(check(params, header.size()));
  ResamplePlan plan = plan_of(params, workspace);
  if (header.format == Format::kJpeg) {
    STOKER_ASSIGN(JpegRows rows, JpegRows::open(picture, plan.source, plan.keep, workspace));
    return run(params, plan, output, rows, workspace);
  }
  STOKER_ASSIGN(ImageView region, [&] {
    TimedPart decoding(workspace.parts(), &PassTimes::decode_ns);
    return decode_region(picture.data, plan.source, workspace, picture.gray16);
  }());
  STOKER_ASSIGN(ViewRows rows, ViewRows::open(region, workspace));
  return run(params, plan, output, rows, workspace);
}

Status resized_crop(const ImageView& in, const ResizedCrop& params, const PixelOutput& output,
                    Workspace& workspace) {
  TimedPart timed(workspace.parts(), &PassTimes::whole_ns);
  STOKER_TRY(check(params, in.size()));
  if (params.size == params.crop.size()) {  // a copy: nothing to plan, which small pictures would feel
    OutputSink sink(output, params, *workspace.parts().kernels);
    ImageView from = in.crop(params.crop).crop(params.written());
    for (int y = 0; y < from.height; ++y) sink.put(from.row(y));
    return ok();
  }
  ResamplePlan plan = plan_of(params, workspace);
  STOKER_ASSIGN(ViewRows rows, ViewRows::open(in.crop(plan.source), workspace));
  return run(params, plan, output, rows, workspace);
}

}  // namespace stoker::image
