// SPDX-License-Identifier: Apache-2.0
// Samples and pixels from the scalar kernels are libjpeg-turbo's, and those of the others the scalar ones'.
// That whole pictures are, too, is in baseline_reader_test.cc.
#include "image/jpeg_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "image/isa_test.h"
#include "image/test_pictures.h"

namespace stoker::image {
namespace {

constexpr int kBlocks = 64;  // of a test's picture, in a row

// A gray JPEG of any coefficients and steps, decoded by libjpeg: kBlocks * 8 samples across, 8 down.
std::vector<uint8_t> libjpeg_samples(const std::vector<int16_t>& coefficients,
                                     const std::vector<uint8_t>& steps) {
  jpeg_compress_struct codec;
  jpeg_error_mgr errors;
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* data = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&codec, &data, &bytes);
  codec.image_width = kBlocks * 8;
  codec.image_height = 8;
  codec.input_components = 1;
  codec.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&codec);
  unsigned int table[64];
  std::copy(steps.begin(), steps.end(), table);
  jpeg_add_quant_table(&codec, 0, table, 100, FALSE);
  codec.optimize_coding = TRUE;
  jvirt_barray_ptr array =
      codec.mem->request_virt_barray(j_common_ptr(&codec), JPOOL_IMAGE, TRUE, kBlocks, 1, 1);
  jpeg_write_coefficients(&codec, &array);
  JBLOCKARRAY rows = codec.mem->access_virt_barray(j_common_ptr(&codec), array, 0, 1, TRUE);
  std::memcpy(rows[0][0], coefficients.data(), coefficients.size() * sizeof(int16_t));
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);

  jpeg_decompress_struct reader;
  reader.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&reader);
  jpeg_mem_src(&reader, data, bytes);
  jpeg_read_header(&reader, TRUE);
  jpeg_start_decompress(&reader);
  std::vector<uint8_t> out(kBlocks * 64);
  while (reader.output_scanline < 8) {
    JSAMPROW row = out.data() + reader.output_scanline * kBlocks * 8;
    jpeg_read_scanlines(&reader, &row, 1);
  }
  jpeg_destroy_decompress(&reader);
  std::free(data);
  return out;
}

class JpegKernelsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (kernels_of(GetParam()) == nullptr) GTEST_SKIP() << "this processor lacks it";
    kernels_ = &jpeg_kernels_of(GetParam());
  }
  int below(int count) { return int(random_() % unsigned(count)); }
  // Blocks as pictures have them, sparse ones, and such as overflow everywhere.
  std::vector<int16_t> coefficients() {
    std::vector<int16_t> out(kBlocks * 64);
    for (int b = 0; b < kBlocks; ++b) {
      int16_t* block = &out[size_t(b) * 64];
      int range = 1 << below(11);
      int count = below(3) == 0 ? 64 : below(12);
      int rows = below(3) == 0 ? 1 : 8;
      for (int i = 0; i < count; ++i) block[below(8 * rows)] = int16_t(below(2 * range) - range);
      if (below(4) == 0) block[0] = int16_t(below(2047) - 1023);
      for (int i = 1; i < 64; ++i) block[i] = std::clamp<int16_t>(block[i], -1023, 1023);
    }
    return out;
  }
  // The widest the encoder takes are smaller than what bytes can hold.
  void transform(const std::vector<int16_t>& coefficients, const std::vector<uint8_t>& steps, uint8_t* out) {
    alignas(64) int16_t pair_steps[2 * 128];
    for (int i = 0; i < 64; ++i) {
      for (int b = 0; b < 4; ++b) pair_steps[b / 2 * 128 + i / 8 * 16 + b % 2 * 8 + i % 8] = steps[size_t(i)];
    }
    int at_once = kernels_->transform_four != nullptr ? 4 : 2;
    for (int b = 0; b < kBlocks; b += at_once) {
      int16_t blocks[4 * kBlockStride];
      uint8_t last[4];
      uint8_t* const to[4] = {out + 8 * b, out + 8 * b + 8, out + 8 * b + 16, out + 8 * b + 24};
      for (int i = 0; i < at_once; ++i) {
        const int16_t* block = &coefficients[size_t(b + i) * 64];
        std::copy(block, block + 64, blocks + i * kBlockStride);
        last[i] = std::any_of(block + 1, block + 64, [](int16_t value) { return value != 0; });
      }
      auto* transform = at_once == 4 ? kernels_->transform_four : kernels_->transform;
      transform(blocks, last, pair_steps, to, kBlocks * 8);
    }
  }

  const JpegKernels* kernels_ = nullptr;
  std::mt19937 random_{31};
};

TEST_P(JpegKernelsTest, SamplesAreLibjpegs) {
  for (int round = 0; round < 200; ++round) {
    auto in = coefficients();
    std::vector<uint8_t> steps(64);
    int most = round % 3 == 0 ? 255 : round % 3 == 1 ? 4 : 40;
    for (uint8_t& step : steps) step = uint8_t(1 + below(most));
    std::vector<uint8_t> got(kBlocks * 64);
    transform(in, steps, got.data());
    ASSERT_EQ(got, libjpeg_samples(in, steps)) << "round " << round;
  }
}

TEST_P(JpegKernelsTest, PixelsAreTheScalarOnesAndNothingMoreIsWritten) {
  const JpegKernels& scalar = jpeg_kernels_of(Isa::kScalar);
  for (int round = 0; round < 3000; ++round) {
    int width = 1 + below(round % 50 == 0 ? 3000 : 150);
    std::vector<uint8_t> planes[5];
    bool extreme = below(3) == 0;
    for (auto& plane : planes) {
      plane.resize(size_t(width) + 128);
      for (uint8_t& sample : plane) sample = extreme ? uint8_t(below(2) * 255) : uint8_t(random_());
    }
    ChromaRows chroma = {{planes[1].data() + 32, planes[2].data() + 32},
                         {planes[3].data() + 32, planes[4].data() + 32},
                         {8, 7}};
    if (below(2) == 0) {
      std::copy(kBiasFull, kBiasFull + 2, chroma.bias);
      chroma.blue[1] = chroma.blue[0];
      chroma.red[1] = chroma.red[0];
    }
    std::vector<uint8_t> want(3 * size_t(width) + 1, 77);
    std::vector<uint8_t> got = want;
    scalar.to_rgb(planes[0].data(), planes[1].data(), planes[3].data(), width, want.data());
    kernels_->to_rgb(planes[0].data(), planes[1].data(), planes[3].data(), width, got.data());
    ASSERT_EQ(got, want);
    scalar.to_rgb_smooth(planes[0].data(), chroma, width, want.data());
    kernels_->to_rgb_smooth(planes[0].data(), chroma, width, got.data());
    ASSERT_EQ(got, want);
    ASSERT_EQ(want.back(), 77);
  }
}

TEST_P(JpegKernelsTest, EveryColourIsTheScalarOne) {
  const JpegKernels& scalar = jpeg_kernels_of(Isa::kScalar);
  std::vector<uint8_t> luma(256 + 64), blue(256 + 64), red(256 + 64), want(768), got(768);
  for (int i = 0; i < 256; ++i) red[size_t(i)] = uint8_t(i);
  for (int y : {0, 1, 100, 128, 254, 255}) {
    for (int b = 0; b < 256; ++b) {
      std::fill(luma.begin(), luma.end(), uint8_t(y));
      std::fill(blue.begin(), blue.end(), uint8_t(b));
      scalar.to_rgb(luma.data(), blue.data(), red.data(), 256, want.data());
      kernels_->to_rgb(luma.data(), blue.data(), red.data(), 256, got.data());
      ASSERT_EQ(got, want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, JpegKernelsTest, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         isa_name);

}  // namespace
}  // namespace stoker::image
