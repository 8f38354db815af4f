// SPDX-License-Identifier: Apache-2.0
// Pictures for tests: patterns, and JPEGs of every layout made with libjpeg's encoder. Not part of the
// product.
#pragma once

#include <jpeglib.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "image/view.h"

namespace stoker::image {

struct JpegKind {
  int components = 3;  // 1 gray, 3 colour, 4 CMYK
  int luma_h = 2;      // sampling of the first component; the others are 1x1
  int luma_v = 2;
  bool progressive = false;
  bool arithmetic = false;
  bool optimized = false;
  bool ycck = false;
  int restart_units = 0;
  int quality = 90;

  std::string text() const {
    return std::to_string(components) + " components, " + std::to_string(luma_h) + "x" +
           std::to_string(luma_v) + (progressive ? ", progressive" : "") +
           (arithmetic ? ", arithmetic" : "") + (optimized ? ", optimized" : "") + (ycck ? ", YCCK" : "") +
           ", restart " + std::to_string(restart_units) + ", quality " + std::to_string(quality);
  }
};

// Smooth slopes with noise and hard edges.
inline std::vector<uint8_t> pattern(Size size, int components, std::mt19937& random) {
  std::vector<uint8_t> out(size_t(size.width) * size_t(size.height) * size_t(components));
  int slopes[8];
  for (int& slope : slopes) slope = int(random() % 9) - 4;
  size_t at = 0;
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      bool edge = (x / 23 + y / 17) % 3 == 0;
      for (int c = 0; c < components; ++c) {
        int value =
            128 + slopes[2 * c] * x / 2 + slopes[2 * c + 1] * y / 2 + int(random() % 24) + (edge ? 60 : 0);
        out[at++] = uint8_t(value);
      }
    }
  }
  return out;
}

inline std::vector<uint8_t> make_jpeg(Size size, const JpegKind& kind, std::mt19937& random) {
  std::vector<uint8_t> pixels = pattern(size, kind.components, random);
  jpeg_compress_struct codec;
  jpeg_error_mgr errors;
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* data = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&codec, &data, &bytes);
  codec.image_width = JDIMENSION(size.width);
  codec.image_height = JDIMENSION(size.height);
  codec.input_components = kind.components;
  codec.in_color_space = kind.components == 1 ? JCS_GRAYSCALE : kind.components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&codec);
  if (kind.ycck) jpeg_set_colorspace(&codec, JCS_YCCK);
  jpeg_set_quality(&codec, kind.quality, TRUE);
  for (int c = 0; c < codec.num_components; ++c) {
    codec.comp_info[c].h_samp_factor = c == 0 ? kind.luma_h : 1;
    codec.comp_info[c].v_samp_factor = c == 0 ? kind.luma_v : 1;
  }
  codec.arith_code = kind.arithmetic ? TRUE : FALSE;
  codec.optimize_coding = kind.optimized && !kind.arithmetic ? TRUE : FALSE;
  codec.restart_interval = unsigned(kind.restart_units);
  if (kind.progressive) jpeg_simple_progression(&codec);
  jpeg_start_compress(&codec, TRUE);
  size_t stride = size_t(size.width) * size_t(kind.components);
  while (codec.next_scanline < codec.image_height) {
    JSAMPROW row = pixels.data() + codec.next_scanline * stride;
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  std::vector<uint8_t> out(data, data + bytes);
  jpeg_destroy_compress(&codec);
  std::free(data);
  return out;
}

// JPEGs that our own decoder reads, of each sampling and with small and large coefficients, and their sizes.
inline std::vector<std::pair<Size, std::vector<uint8_t>>> six_jpegs() {
  std::mt19937 random(1);
  std::vector<std::pair<Size, std::vector<uint8_t>>> jpegs;
  for (int i = 0; i < 6; ++i) {
    JpegKind kind;
    kind.luma_h = i % 3 == 0 ? 1 : 2;
    kind.luma_v = i % 3 == 2 ? 2 : 1;
    kind.quality = i < 3 ? 75 : 100;
    Size size{100 + 37 * i, 60 + 11 * i};
    jpegs.emplace_back(size, make_jpeg(size, kind, random));
  }
  return jpegs;
}

// Every layout that the tests go through, by number.
inline JpegKind any_kind(std::mt19937& random) {
  auto pick = [&](int count) { return int(random() % unsigned(count)); };
  JpegKind kind;
  kind.components = pick(8) == 0 ? 1 : pick(8) == 0 ? 4 : 3;
  const int samplings[][2] = {{1, 1}, {2, 1}, {2, 2}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {1, 4}};
  const int* sampling = samplings[pick(8)];
  kind.luma_h = sampling[0];
  kind.luma_v = sampling[1];
  kind.ycck = kind.components == 4 && pick(2) == 0;
  if (kind.components == 4 && !kind.ycck) kind.luma_h = kind.luma_v = 1;
  if (kind.components == 4 && kind.luma_h * kind.luma_v > 4) kind.luma_h = 2;  // ten blocks a unit at most
  kind.progressive = pick(3) == 0;
  kind.arithmetic = pick(6) == 0;
  kind.optimized = pick(3) == 0;
  kind.restart_units = pick(3) == 0 ? 1 + pick(7) : 0;
  const int qualities[] = {20, 75, 90, 100};
  kind.quality = qualities[pick(4)];
  return kind;
}

}  // namespace stoker::image
