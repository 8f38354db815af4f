// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>

#include "image/decode.h"
#include "image/fault.h"

namespace stoker::image {
namespace {

int be16(const uint8_t* at) { return at[0] << 8 | at[1]; }
uint32_t be32(const uint8_t* at) { return uint32_t(be16(at)) << 16 | uint32_t(be16(at + 2)); }
uint32_t le16(const uint8_t* at) { return at[0] | uint32_t{at[1]} << 8; }
uint32_t le24(const uint8_t* at) { return le16(at) | uint32_t{at[2]} << 16; }

// Formats that users meet in picture folders and that we name for whoever may read them; nullptr for anything
// else.
const char* other_format(std::string_view text) {
  struct Mark {
    size_t at;
    std::string_view bytes;
    const char* name;
  };
  using namespace std::string_view_literals;
  static constexpr Mark kMarks[] = {
      {0, "GIF87a"sv, "GIF"},
      {0, "GIF89a"sv, "GIF"},
      {0, "II*\0"sv, "TIFF"},
      {0, "MM\0*"sv, "TIFF"},
      {0, "II+\0"sv, "BigTIFF"},
      {0, "MM\0+"sv, "BigTIFF"},
      {4, "ftypavif"sv, "AVIF"},
      {4, "ftypavis"sv, "AVIF"},
      {4, "ftypheic"sv, "HEIC"},
      {4, "ftypheix"sv, "HEIC"},
      {4, "ftyphevc"sv, "HEIC"},
      {4, "ftypmif1"sv, "HEIF"},
      {4, "ftypmsf1"sv, "HEIF"},
      {0, "\0\0\0\x0cjP  "sv, "JPEG 2000"},
      {0, "\xff\x4f\xff\x51"sv, "JPEG 2000"},
      {0, "\xff\x0a"sv, "JPEG XL"},
      {0, "\0\0\0\x0cJXL "sv, "JPEG XL"},
      {0, "8BPS"sv, "PSD"},
      {0, "\0\0\1\0"sv, "ICO"},
      {0, "\0\0\2\0"sv, "CUR"},
      {0, "DDS "sv, "DDS"},
      {0, "qoif"sv, "QOI"},
      {0, "\x8aMNG"sv, "MNG"},
      {0, "\x76\x2f\x31\x01"sv, "OpenEXR"},
      {0, "#?RADIANCE"sv, "Radiance HDR"},
      {0, "SIMPLE  ="sv, "FITS"},
  };
  for (const Mark& mark : kMarks) {
    if (text.size() >= mark.at && text.substr(mark.at).starts_with(mark.bytes)) return mark.name;
  }
  if (text.size() >= 18 && text.starts_with("BM") && text[15] == 0 && text[16] == 0 && text[17] == 0) {
    static constexpr uint8_t kHeaderSizes[] = {12, 16, 40, 52, 56, 64, 108, 124};
    if (std::count(std::begin(kHeaderSizes), std::end(kHeaderSizes), uint8_t(text[14])) > 0) return "BMP";
  }
  if (text.size() >= 3 && text[0] == 'P' && std::string_view("1234567fF").find(text[1]) != text.npos &&
      std::string_view(" \n\r\t").find(text[2]) != text.npos) {
    return "PNM";
  }
  return nullptr;
}

Result<Header> checked(Format format, uint32_t width, uint32_t height, int64_t offset) {
  if (width == 0 || height == 0) return fault("corrupt", "the header says a side of zero", offset);
  if (uint64_t{width} * height > uint64_t{kMaxPixels} || width > 0x7fffffff || height > 0x7fffffff) {
    return fault("too_large",
                 "the header says " + std::to_string(width) + " x " + std::to_string(height) +
                     " pixels; the limit is " + std::to_string(kMaxPixels),
                 offset);
  }
  return Header{format, int(width), int(height)};
}

Result<Header> frame_header(ByteView data, size_t at, int marker) {
  bool known = marker == 0xC0 || marker == 0xC1 || marker == 0xC2 || marker == 0xC9 || marker == 0xCA;
  if (!known) {
    return fault("unsupported",
                 "JPEG process SOF" + std::to_string(marker - 0xC0) + " (lossless or hierarchical)",
                 int64_t(at) - 2);
  }
  if (data.size() - at < 8)
    return fault("truncated", "JPEG ends inside the frame header", int64_t(data.size()));
  if (data[at + 2] != 8) {
    return fault("unsupported", "JPEG of " + std::to_string(data[at + 2]) + " bits a sample",
                 int64_t(at) + 2);
  }
  int components = data[at + 7];
  if (components != 1 && components != 3 && components != 4) {
    return fault("unsupported", "JPEG of " + std::to_string(components) + " components", int64_t(at) + 7);
  }
  return checked(Format::kJpeg, uint32_t(be16(&data[at + 5])), uint32_t(be16(&data[at + 3])),
                 int64_t(at) + 3);
}

// Walks the marker segments to the frame header, as libjpeg does.
Result<Header> jpeg_header(ByteView data) {
  if (data.size() > 2 && data[2] != 0xFF) return fault("corrupt", "no JPEG marker after the start marker", 2);
  size_t at = 2;
  for (;;) {
    while (at < data.size() && data[at] != 0xFF) ++at;
    while (at < data.size() && data[at] == 0xFF) ++at;
    if (at >= data.size())
      return fault("truncated", "JPEG ends before its frame header", int64_t(data.size()));
    int marker = data[at++];
    if (marker == 0 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) continue;
    if (marker == 0xD9) return fault("corrupt", "JPEG without a picture", int64_t(at) - 2);
    if (marker == 0xDA) return fault("corrupt", "JPEG scan before the frame header", int64_t(at) - 2);
    if (data.size() - at < 2)
      return fault("truncated", "JPEG ends before its frame header", int64_t(data.size()));
    if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) {
      return frame_header(data, at, marker);
    }
    int length = be16(&data[at]);
    if (length < 2) return fault("corrupt", "JPEG segment of impossible length", int64_t(at));
    if (data.size() - at < size_t(length)) {
      return fault("truncated", "JPEG ends before its frame header", int64_t(data.size()));
    }
    at += size_t(length);
  }
}

Result<Header> png_header(ByteView data) {
  if (data.size() < 16) return fault("truncated", "PNG ends before its header", int64_t(data.size()));
  if (be32(&data[8]) != 13 || as_text(data.subspan(12, 4)) != "IHDR") {
    return fault("corrupt", "PNG does not begin with a header chunk of 13 bytes", 8);
  }
  if (data.size() < 33) return fault("truncated", "PNG ends inside its header", int64_t(data.size()));
  return checked(Format::kPng, be32(&data[16]), be32(&data[20]), 16);
}

// Of the first chunk, which says the size of the picture, or of an animation's canvas.
Result<Header> webp_header(ByteView data) {
  std::string_view chunk = data.size() < 16 ? "" : as_text(data.subspan(12, 4));
  size_t needs = chunk == "VP8L" ? 25 : 30;
  if (data.size() < needs) return fault("truncated", "WebP ends inside its header", int64_t(data.size()));
  if (chunk == "VP8X") return checked(Format::kWebp, le24(&data[24]) + 1, le24(&data[27]) + 1, 24);
  if (chunk == "VP8L" && data[20] == 0x2f) {
    uint32_t sides = le24(&data[21]) | uint32_t{data[24]} << 24;
    return checked(Format::kWebp, (sides & 0x3fff) + 1, (sides >> 14 & 0x3fff) + 1, 21);
  }
  if (chunk == "VP8 " && as_text(data.subspan(23, 3)) == "\x9d\x01\x2a")
    return checked(Format::kWebp, le16(&data[26]) & 0x3fff, le16(&data[28]) & 0x3fff, 26);
  return fault("corrupt", "WebP does not begin with a picture's chunk", 12);
}

}  // namespace

Result<Header> read_header(ByteView data) {
  if (data.empty()) return fault("empty", "no bytes", 0);
  std::string_view text = as_text(data);
  if (text.starts_with("\xff\xd8")) return jpeg_header(data);
  std::string_view png = "\x89PNG\r\n\x1a\n";
  if (text.starts_with(png)) return png_header(data);
  if (text.size() >= 4 && text.size() < 8 && png.starts_with(text)) {
    return fault("truncated", "PNG ends inside its signature", int64_t(data.size()));
  }
  if (text.starts_with("RIFF") && text.substr(std::min<size_t>(text.size(), 8)).starts_with("WEBP"))
    return webp_header(data);
  if (const char* name = other_format(text)) {
    return fault("unsupported", std::string(name) + " pictures are not read natively; JPEG, PNG and WebP are",
                 0);
  }
  return fault("not_image", "the bytes are of no picture format that we know", 0);
}

}  // namespace stoker::image
