// SPDX-License-Identifier: Apache-2.0
#include "image/webp_reader.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "image/fault.h"

namespace stoker::image {
namespace {

// The first frame: what Pillow's decoder shows first.
class FirstFrame {
 public:
  explicit FirstFrame(ByteView data) {
    WebPData bytes{data.data(), data.size()};
    container_.reset(WebPDemux(&bytes));
    found_ = container_ != nullptr && WebPDemuxGetFrame(container_.get(), 1, &frame_) != 0;
  }
  ~FirstFrame() { WebPDemuxReleaseIterator(&frame_); }
  FirstFrame(const FirstFrame&) = delete;
  FirstFrame& operator=(const FirstFrame&) = delete;

  bool found() const { return found_; }
  Size canvas() const {
    return {int(WebPDemuxGetI(container_.get(), WEBP_FF_CANVAS_WIDTH)),
            int(WebPDemuxGetI(container_.get(), WEBP_FF_CANVAS_HEIGHT))};
  }
  Box box() const { return {frame_.x_offset, frame_.y_offset, frame_.width, frame_.height}; }
  const WebPData& data() const { return frame_.fragment; }

 private:
  struct Delete {
    void operator()(WebPDemuxer* container) const { WebPDemuxDelete(container); }
  };
  std::unique_ptr<WebPDemuxer, Delete> container_;
  WebPIterator frame_{};
  bool found_ = false;
};

uint32_t le32(const uint8_t* at) {
  return at[0] | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16 | uint32_t{at[3]} << 24;
}

// Why libwebp does not take the container: it is cut if a chunk ends behind the last byte, or none is a
// picture.
Error container_fault(ByteView data) {
  bool picture = false;
  for (size_t at = 12; at < data.size();) {
    ByteView rest = data.subspan(at);
    uint64_t bytes = rest.size() < 8 ? 0 : 8 + ((uint64_t{le32(&rest[4])} + 1) & ~uint64_t{1});
    if (bytes == 0 || bytes > rest.size())
      return fault("truncated", "WebP ends inside a chunk", int64_t(data.size()));
    std::string_view name = as_text(rest.first(4));
    picture = picture || name == "VP8 " || name == "VP8L" || name == "ANMF";
    at += bytes;
  }
  if (!picture) return fault("truncated", "WebP ends before its picture", int64_t(data.size()));
  return fault("corrupt", "WebP whose chunks do not fit together", 12);
}

Error decode_fault(VP8StatusCode status, ByteView data) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return fault("truncated", "WebP: the picture's data ends before its last row", int64_t(data.size()));
    case VP8_STATUS_OUT_OF_MEMORY:
      return no_memory(0);
    default:
      return fault("corrupt", "WebP: the picture's data is damaged");
  }
}

Box intersection(const Box& a, const Box& b) {
  int left = std::max(a.left, b.left);
  int top = std::max(a.top, b.top);
  return {left, top, std::min(a.left + a.width, b.left + b.width) - left,
          std::min(a.top + a.height, b.top + b.height) - top};
}

// `part` of the frame, in its own coordinates.
VP8StatusCode decode(const WebPData& frame, const Box& part, WEBP_CSP_MODE mode, uint8_t* to, size_t stride,
                     size_t pixel_bytes) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return VP8_STATUS_INVALID_PARAM;
  config.options.use_cropping = 1;
  config.options.crop_left = part.left;
  config.options.crop_top = part.top;
  config.options.crop_width = part.width;
  config.options.crop_height = part.height;
  config.output.colorspace = mode;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = to;
  config.output.u.RGBA.stride = int(stride);
  config.output.u.RGBA.size = stride * size_t(part.height - 1) + pixel_bytes * size_t(part.width);
  return WebPDecode(frame.bytes, frame.size, &config);
}

void drop_alpha(const uint8_t* in, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x, in += 4, out += 3) std::memcpy(out, in, 3);
}

Status decode_part(const WebPData& frame, const Box& part, const MutableImageView& out, ByteView data,
                   Buffer& scratch) {
  WebPBitstreamFeatures features;
  VP8StatusCode status = WebPGetFeatures(frame.bytes, frame.size, &features);
  if (status != VP8_STATUS_OK) return decode_fault(status, data);
  // Of a lossy picture's alpha, which is a plane of its own, libwebp would not look at what it need not give.
  bool plane = features.format == 1 && features.has_alpha != 0;
  if (!plane) {
    status = decode(frame, part, MODE_RGB, out.data, size_t(out.stride), 3);
    return status == VP8_STATUS_OK ? ok() : decode_fault(status, data);
  }
  size_t stride = 4 * size_t(part.width);
  uint8_t* pixels = scratch.grow(stride * size_t(part.height));
  if (pixels == nullptr) return no_memory(stride * size_t(part.height));
  status = decode(frame, part, MODE_RGBA, pixels, stride, 4);
  if (status != VP8_STATUS_OK) return decode_fault(status, data);
  for (int y = 0; y < part.height; ++y) drop_alpha(pixels + size_t(y) * stride, part.width, out.row(y));
  return ok();
}

}  // namespace

Box webp_margins(const Box& region, Size picture) {
  int left = std::max(region.left - 2, 0) & ~1;
  int top = std::max(region.top - 2, 0) & ~1;
  int right = std::min((region.left + region.width + 3) & ~1, picture.width);
  int bottom = std::min((region.top + region.height + 3) & ~1, picture.height);
  return {left, top, right - left, bottom - top};
}

Status read_webp(ByteView data, Size picture, const Box& box, const MutableImageView& out, Buffer& scratch) {
  FirstFrame frame(data);
  if (!frame.found()) return container_fault(data);
  if (frame.canvas() != picture) return fault("corrupt", "WebP whose picture is not of the header's size");
  Box seen = intersection(box, frame.box());
  if (seen != box) {
    for (int y = 0; y < out.height; ++y) std::memset(out.row(y), 0, 3 * size_t(out.width));
  }
  if (seen.width <= 0 || seen.height <= 0) return ok();
  MutableImageView to{out.row(seen.top - box.top) + 3 * ptrdiff_t{seen.left - box.left}, seen.width,
                      seen.height, out.stride};
  Box part{seen.left - frame.box().left, seen.top - frame.box().top, seen.width, seen.height};
  return decode_part(frame.data(), part, to, data, scratch);
}

}  // namespace stoker::image
