// SPDX-License-Identifier: Apache-2.0
#include "image/decode.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "image/coefficients.h"
#include "image/fault.h"
#include "image/png_reader.h"
#include "image/webp_reader.h"
#include "image/workspace_parts.h"

namespace stoker::image {
namespace {

// Rows of `width` pixels in the workspace. One byte off a 32-byte border: there libjpeg-turbo would write
// them past the cache, and we are about to read them.
Result<MutableImageView> picture_of(Size size, Workspace::Parts& parts) {
  size_t stride = round_up(3 * size_t(size.width), 64);
  size_t bytes = stride * size_t(size.height) + kSlack + 1;
  uint8_t* data = parts.picture.grow(bytes);
  if (data == nullptr) return no_memory(bytes);
  return MutableImageView{data + 1, size.width, size.height, ptrdiff_t(stride)};
}

Status decode_jpeg(ByteView data, const Box& region, const MutableImageView& out, Workspace::Parts& parts) {
  STOKER_TRY(parts.jpeg.open(data, region, parts.kernels->isa));
  size_t row_bytes = parts.jpeg.row_bytes();
  size_t stride = round_up(row_bytes, 64);
  uint8_t* margin = parts.scratch.grow(stride * kRowBatch + 1);
  if (margin == nullptr) {
    parts.jpeg.close();
    return no_memory(stride * kRowBatch);
  }
  ++margin;
  bool direct = row_bytes == 3 * size_t(out.width);
  for (int y = 0; y < out.height;) {
    uint8_t* rows[kRowBatch];
    int count = std::min(kRowBatch, out.height - y);
    for (int i = 0; i < count; ++i) rows[i] = direct ? out.row(y + i) : margin + size_t(i) * stride;
    STOKER_ASSIGN(int got, parts.jpeg.read(rows, count));
    if (!direct) {
      for (int i = 0; i < got; ++i) {
        std::memcpy(out.row(y + i), rows[i] + parts.jpeg.lead_bytes(), 3 * size_t(out.width));
      }
    }
    y += got;
  }
  STOKER_ASSIGN(parts.notes.jpeg_warnings, parts.jpeg.finish(margin));
  return ok();
}

}  // namespace

Result<Header> header_of(const StoredPicture& picture) {
  if (picture.coefficients == nullptr) return read_header(picture.data);
  auto kept = Coefficients::read(picture.coefficients->head());
  if (!kept) return fault("corrupt", "the coefficients that were kept are damaged", -1);
  return Header{Format::kJpeg, kept->frame().size.width, kept->frame().size.height};
}

Status decode_rgb_into(ByteView data, const MutableImageView& out, Workspace& workspace, Gray16 gray16) {
  Workspace::Parts& parts = workspace.parts();
  parts.notes = {};
  STOKER_ASSIGN(Header header, read_header(data));
  if (header.size() != out.size()) return invalid("the picture is of another size than its place");
  Box all{0, 0, out.width, out.height};
  if (header.format == Format::kJpeg) return decode_jpeg(data, all, out, parts);
  if (header.format == Format::kWebp) return read_webp(data, header.size(), all, out, parts.scratch);
  STOKER_ASSIGN(PngResult result, read_png(data, out.height, out, gray16, parts.scratch));
  parts.notes.gray16_clipped = result.gray16_clipped;
  return ok();
}

Result<ImageView> decode_rgb(ByteView data, Workspace& workspace, Gray16 gray16) {
  STOKER_ASSIGN(Header header, read_header(data));
  STOKER_ASSIGN(MutableImageView out, picture_of(header.size(), workspace.parts()));
  STOKER_TRY(decode_rgb_into(data, out, workspace, gray16));
  return ImageView(out);
}

Status decode_numbers_into(ByteView data, const MutableImageView& out, Workspace& workspace) {
  STOKER_ASSIGN(Header header, read_header(data));
  if (header.size() != out.size()) return invalid("the picture is of another size than its place");
  if (header.format != Format::kPng)
    return fault("unsupported", "masks are PNG files: JPEG does not keep class numbers, nor WebP", -1);
  return read_png_numbers(data, out, workspace.parts().scratch);
}

Result<ImageView> decode_region(ByteView data, const Box& region, Workspace& workspace, Gray16 gray16) {
  Workspace::Parts& parts = workspace.parts();
  parts.notes = {};
  STOKER_ASSIGN(Header header, read_header(data));
  if (!inside(region, header.size())) return invalid("region outside of the picture");
  if (header.format == Format::kJpeg) {
    STOKER_ASSIGN(MutableImageView out, picture_of(region.size(), parts));
    STOKER_TRY(decode_jpeg(data, region, out, parts));
    return ImageView(out);
  }
  if (header.format == Format::kWebp) {
    Box box = webp_margins(region, header.size());
    STOKER_ASSIGN(MutableImageView out, picture_of(box.size(), parts));
    STOKER_TRY(read_webp(data, header.size(), box, out, parts.scratch));
    return ImageView(out).crop({region.left - box.left, region.top - box.top, region.width, region.height});
  }
  int rows = region.top + region.height;
  STOKER_ASSIGN(MutableImageView out, picture_of({header.width, rows}, parts));
  STOKER_ASSIGN(PngResult result, read_png(data, rows, out, gray16, parts.scratch));
  parts.notes.gray16_clipped = result.gray16_clipped;
  return ImageView(out).crop(region);
}

}  // namespace stoker::image
