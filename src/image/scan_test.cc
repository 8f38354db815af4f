// SPDX-License-Identifier: Apache-2.0
// Our entropy decoder against libjpeg's coefficients.
#include "image/scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "image/isa_test.h"
#include "image/jpeg_frame.h"
#include "image/jpeg_kernels.h"
#include "image/test_pictures.h"

namespace stoker::image {
namespace {

// Each unit's blocks in the scan's order, 64 coefficients each.
std::vector<int16_t> libjpeg_coefficients(const std::vector<uint8_t>& data) {
  jpeg_decompress_struct codec;
  jpeg_error_mgr errors;
  codec.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, data.data(), data.size());
  jpeg_read_header(&codec, TRUE);
  jvirt_barray_ptr* arrays = jpeg_read_coefficients(&codec);
  std::vector<int16_t> out;
  auto units = [](JDIMENSION side, int unit) { return (side + JDIMENSION(unit) - 1) / JDIMENSION(unit); };
  for (JDIMENSION y = 0; y < units(codec.image_height, 8 * codec.max_v_samp_factor); ++y) {
    for (JDIMENSION x = 0; x < units(codec.image_width, 8 * codec.max_h_samp_factor); ++x) {
      for (int c = 0; c < 3; ++c) {
        int across = codec.comp_info[c].h_samp_factor;
        int down = codec.comp_info[c].v_samp_factor;
        JBLOCKARRAY rows = codec.mem->access_virt_barray(j_common_ptr(&codec), arrays[c],
                                                         y * JDIMENSION(down), JDIMENSION(down), FALSE);
        for (int v = 0; v < down; ++v) {
          for (int h = 0; h < across; ++h) {
            const JCOEF* block = rows[v][x * JDIMENSION(across) + JDIMENSION(h)];
            out.insert(out.end(), block, block + 64);
          }
        }
      }
    }
  }
  jpeg_destroy_decompress(&codec);
  return out;
}

struct OpenScan {
  JpegFrame frame;
  std::vector<uint8_t> plain;
  ScanTables tables;
  ScanBits bits;
  HuffmanCache cache;
};

bool open(const std::vector<uint8_t>& data, OpenScan* scan) {
  auto frame = read_jpeg_frame(data);
  if (!frame) return false;
  scan->frame = *frame;
  scan->plain.resize(data.size() - frame->scan + kScanPadding);
  auto bytes = plain_scan(data, frame->scan, scan->plain.data());
  if (!bytes) return false;
  scan->plain.resize(*bytes + kScanPadding);
  scan->plain.shrink_to_fit();  // the sanitizer's build sees a byte too far
  scan->bits = {scan->plain.data(), 8 * *bytes};
  scan->tables.blocks = frame->luma_blocks() + 2;
  for (int b = 0; b < scan->tables.blocks; ++b) {
    int c = std::max(0, b - frame->luma_blocks() + 1);
    scan->tables.component[b] = uint8_t(c);
    scan->tables.dc[b] = scan->cache.dc(frame->components[size_t(c)].dc);
    scan->tables.ac[b] = scan->cache.ac(frame->components[size_t(c)].ac);
    if (scan->tables.dc[b] == nullptr || scan->tables.ac[b] == nullptr) return false;
  }
  return true;
}

// Kinds that are ours to decode.
JpegKind our_kind(std::mt19937& random) {
  const int samplings[][2] = {{2, 2}, {2, 2}, {2, 1}, {1, 1}};
  const int* sampling = samplings[random() % 4];
  JpegKind kind;
  kind.luma_h = sampling[0];
  kind.luma_v = sampling[1];
  kind.optimized = random() % 2 == 0;
  kind.quality = random() % 4 == 0 ? 100 : 1 + int(random() % 100);
  return kind;
}

class ScanTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (kernels_of(GetParam()) == nullptr) GTEST_SKIP() << "this processor lacks it";
    kernels_ = &jpeg_kernels_of(GetParam());
  }
  const JpegKernels* kernels_ = nullptr;
};

TEST_P(ScanTest, CoefficientsAreLibjpegs) {
  std::mt19937 random(21);
  for (int round = 0; round < 200; ++round) {
    JpegKind kind = our_kind(random);
    Size size{1 + int(random() % 200), 1 + int(random() % 200)};
    auto data = make_jpeg(size, kind, random);
    OpenScan scan;
    ASSERT_TRUE(open(data, &scan)) << kind.text();
    auto want = libjpeg_coefficients(data);
    size_t unit = 64 * size_t(scan.tables.blocks);
    int units = scan.frame.units_across() * scan.frame.units_down();
    ASSERT_EQ(want.size(), unit * size_t(units));
    ScanState state;
    ScanState seek;  // as an index would store it
    for (int u = 0; u < units; ++u) {
      if (random() % 3 == 0) {
        int skipped = std::min(units - u, 1 + int(random() % 5));
        ASSERT_TRUE(kernels_->skip_units(scan.tables, scan.bits, &state, skipped));
        u += skipped;
        if (u == units) break;
      }
      seek = state;
      alignas(64) int16_t blocks[kMaxBlocks * kBlockStride];
      uint8_t last[kMaxBlocks];
      for (ScanState* from : {&state, &seek}) {
        ASSERT_TRUE(kernels_->decode_unit(scan.tables, scan.bits, from, blocks, last));
        for (int b = 0; b < scan.tables.blocks; ++b) {
          const int16_t* expected = &want[unit * size_t(u) + 64 * size_t(b)];
          const int16_t* got = blocks + b * kBlockStride;
          ASSERT_TRUE(std::equal(got, got + 64, expected))
              << kind.text() << ", unit " << u << ", block " << b;
          bool flat = std::all_of(got + 1, got + 64, [](int16_t value) { return value == 0; });
          ASSERT_EQ(last[b] == 0, flat);
        }
      }
    }
    ASSERT_LT(scan.bits.end - state.at, 8U) << "only the last byte's filling is left";
  }
}

TEST_P(ScanTest, AnyBitsEndWithinThePadding) {
  std::mt19937 random(22);
  for (int round = 0; round < 2000; ++round) {
    static std::vector<uint8_t> data;
    if (round % 40 == 0) data = make_jpeg({64, 64}, our_kind(random), random);
    OpenScan scan;
    ASSERT_TRUE(open(data, &scan));
    size_t bytes = scan.plain.size() - kScanPadding;
    for (int i = int(random() % 20); i >= 0; --i) scan.plain[random() % bytes] = uint8_t(random());
    ScanState state;
    alignas(64) int16_t blocks[kMaxBlocks * kBlockStride];
    uint8_t last[kMaxBlocks];
    bool keep = random() % 2 == 0;
    int units = 0;
    for (; units < 10000; ++units) {
      bool good = keep ? kernels_->decode_unit(scan.tables, scan.bits, &state, blocks, last)
                       : kernels_->skip_units(scan.tables, scan.bits, &state, 1);
      if (!good) break;
      ASSERT_LE(state.at, scan.bits.end);
      for (int b = 0; keep && b < scan.tables.blocks; ++b) ASSERT_LE(last[b], 63);
    }
    ASSERT_LT(units, 10000);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, ScanTest, testing::Values(Isa::kScalar, Isa::kAvx2), isa_name);

TEST(PlainScanTest, StuffingGoesAndOnlyAnEndMarkerEnds) {
  auto plain = [](std::vector<uint8_t> data) {
    std::vector<uint8_t> out(data.size() + kScanPadding);
    auto bytes = plain_scan(data, 1, out.data());
    if (!bytes) return std::string("refused");
    return std::string(out.begin(), out.begin() + ptrdiff_t(*bytes));
  };
  EXPECT_EQ(plain({'x', 'a', 'b', 0xFF, 0xD9, 'c'}), "ab");
  EXPECT_EQ(plain({'x', 0xFF, 0x00, 0xFF, 0x00, 0xFF, 0xD9}), "\xff\xff");
  EXPECT_EQ(plain({'x', 0xFF, 0xD9}), "");
  EXPECT_EQ(plain({'x', 'a'}), "refused");
  EXPECT_EQ(plain({'x', 'a', 0xFF}), "refused");
  EXPECT_EQ(plain({'x'}), "refused");
  EXPECT_EQ(plain({'x', 'a', 0xFF, 0xD0, 'b', 0xFF, 0xD9}), "refused");
  EXPECT_EQ(plain({'x', 'a', 0xFF, 0xFF, 0xD9}), "refused");
}

TEST(JpegFrameTest, OnlyPlainBaselineIsOurs) {
  std::mt19937 random(23);
  for (int round = 0; round < 400; ++round) {
    JpegKind kind = any_kind(random);
    auto data = make_jpeg({40, 30}, kind, random);
    int sampling = 10 * kind.luma_h + kind.luma_v;
    bool ours = kind.components == 3 && !kind.progressive && !kind.arithmetic && kind.restart_units == 0 &&
                (sampling == 11 || sampling == 21 || sampling == 22);
    auto frame = read_jpeg_frame(data);
    ASSERT_EQ(frame.has_value(), ours) << kind.text();
    if (ours) {
      ASSERT_EQ(frame->size, (Size{40, 30}));
    }
  }
}

TEST(HuffmanTest, TablesThatAreNoPrefixCodeAreRefused) {
  AcTable ac;
  DcTable dc;
  auto stored = [](std::vector<std::pair<int, int>> counts, std::vector<uint8_t> symbols) {
    std::vector<uint8_t> out(16);
    for (auto [length, count] : counts) out[size_t(length - 1)] = uint8_t(count);
    out.insert(out.end(), symbols.begin(), symbols.end());
    return out;
  };
  EXPECT_TRUE(build(stored({{1, 1}, {2, 1}}, {0, 1}), &ac));
  EXPECT_FALSE(build(stored({{1, 2}}, {0, 1}), &ac)) << "a code of ones alone";
  EXPECT_FALSE(build(stored({{1, 1}, {2, 2}}, {0, 1, 2}), &ac)) << "a code of ones alone";
  EXPECT_FALSE(build(stored({{2, 5}}, {0, 1, 2, 3, 4}), &ac)) << "too many codes";
  EXPECT_FALSE(build(stored({{16, 255}, {3, 1}, {4, 2}}, std::vector<uint8_t>(258)), &ac))
      << "too many symbols";
  EXPECT_FALSE(build(stored({{3, 2}}, {0}), &ac)) << "fewer symbols than counted";
  EXPECT_FALSE(build(std::vector<uint8_t>(15), &ac)) << "fewer counts";
  EXPECT_FALSE(build(stored({{1, 1}}, {0x0B}), &ac)) << "a value of 11 bits";
  EXPECT_FALSE(build(stored({{1, 1}}, {0x10}), &ac)) << "a run without a value";
  EXPECT_TRUE(build(stored({{1, 1}}, {11}), &dc));
  EXPECT_FALSE(build(stored({{1, 1}}, {12}), &dc));
}

TEST(HuffmanTest, TheCacheKeepsWhatIsUsed) {
  HuffmanCache cache;
  auto stored = [](int n) {
    std::vector<uint8_t> out(16);
    out[7] = 2;
    out.push_back(uint8_t(n % 10));
    out.push_back(uint8_t(n / 10));
    return out;
  };
  const DcTable* first = cache.dc(stored(0));
  ASSERT_NE(first, nullptr);
  for (int n = 1; n < 50; ++n) {
    ASSERT_NE(cache.dc(stored(n)), nullptr);
    ASSERT_EQ(cache.dc(stored(0)), first);
  }
  EXPECT_GT(cache.bytes(), 0U);
  cache.release();
  EXPECT_EQ(cache.bytes(), 0U);
}

}  // namespace
}  // namespace stoker::image
