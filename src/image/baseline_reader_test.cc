// SPDX-License-Identifier: Apache-2.0
// Our decoder against libjpeg: the same pixels of sound pictures, the same verdict on damaged ones.
#include "image/baseline_reader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "image/decode.h"
#include "image/isa_test.h"
#include "image/libjpeg_oracle.h"
#include "image/test_pictures.h"

namespace stoker::image {
namespace {

std::string text(const Box& box) {
  return std::to_string(box.left) + " " + std::to_string(box.top) + " " + std::to_string(box.width) + "x" +
         std::to_string(box.height);
}

class BaselineReaderTest : public IsaTest {
 protected:
  BaselineReaderTest() : IsaTest(41) {}
  JpegKind our_kind() {
    const int samplings[][2] = {{2, 2}, {2, 2}, {2, 1}, {1, 1}};
    const int* sampling = samplings[below(4)];
    JpegKind kind;
    kind.luma_h = sampling[0];
    kind.luma_v = sampling[1];
    kind.optimized = below(2) == 0;
    kind.quality = below(4) == 0 ? 100 : 1 + below(100);
    return kind;
  }
  Size any_size(int most) { return {5 + below(most), 1 + below(most)}; }
  Box any_box(Size in) { return below(6) == 0 ? Box{0, 0, in.width, in.height} : IsaTest::any_box(in); }
  // Some bytes changed, taken out or doubled; now and then one of the headers'.
  std::vector<uint8_t> damaged(const std::vector<uint8_t>& data) {
    std::vector<uint8_t> out = data;
    size_t scan = read_jpeg_frame(data)->scan;
    for (int i = below(4); i >= 0; --i) {
      size_t at = below(4) == 0 ? random_() % out.size() : scan + random_() % (out.size() - scan);
      switch (below(6)) {
        case 0:
          out[at] = 0xFF;
          break;
        case 1:
          out[at] = uint8_t(1 << below(8) ^ out[at]);
          break;
        case 2:
          out.erase(out.begin() + ptrdiff_t(at));
          break;
        case 3:
          out.insert(out.begin() + ptrdiff_t(at), uint8_t(random_()));
          break;
        default:
          out[at] = uint8_t(random_());
      }
      if (out.size() <= scan) return data;
    }
    return out;
  }
};

TEST_P(BaselineReaderTest, SoundPicturesAreOursToDecodeAndLibjpegsInEveryPixel) {
  for (int round = 0; round < 400; ++round) {
    JpegKind kind = our_kind();
    Size size = any_size(round % 10 == 0 ? 600 : 150);
    auto data = make_jpeg(size, kind, random_);
    for (int i = 0; i < 6; ++i) {
      Box box = any_box(size);
      auto want = libjpeg_region(data, box);
      ASSERT_TRUE(agrees(decode_region(data, box, workspace_), want))
          << kind.text() << ", " << size.width << "x" << size.height << ", box " << text(box);
      auto ours = baseline_region(data, box, GetParam());
      ASSERT_TRUE(ours.has_value()) << kind.text();
      ASSERT_EQ(*ours, *want);
    }
  }
}

TEST_P(BaselineReaderTest, TheVerdictOnDamageIsLibjpegs) {
  int accepted = 0;
  for (int round = 0; round < 400; ++round) {
    Size size = any_size(80);
    auto data = make_jpeg(size, our_kind(), random_);
    for (int i = 0; i < 10; ++i) {
      auto bad = damaged(data);
      auto header = read_header(bad);
      if (!header.ok() || int64_t{header->width} * header->height > 1 << 18) continue;
      for (Box box : {Box{0, 0, header->width, header->height}, any_box(header->size())}) {
        auto expected = libjpeg_region(bad, box);
        ASSERT_TRUE(agrees(decode_region(bad, box, workspace_), expected))
            << "round " << round << ", box " << text(box);
        auto ours = baseline_region(bad, box, GetParam());
        if (!ours) continue;
        ASSERT_TRUE(expected.ok() && *ours == *expected) << "round " << round << ", box " << text(box);
        ++accepted;
      }
    }
  }
  EXPECT_GT(accepted, 500) << "damage beside the region, or such as makes another sound picture";
}

// A chain of the largest differences: libjpeg counts in 32 bits and keeps 16, and so must we, or give up.
TEST_P(BaselineReaderTest, BitsOfOnesAndZerosEndLikeLibjpegs) {
  for (int round = 0; round < 60; ++round) {
    Size size = any_size(200);
    auto data = make_jpeg(size, our_kind(), random_);
    size_t scan = read_jpeg_frame(data)->scan;
    uint8_t filling = uint8_t(below(3) == 0 ? 0 : below(2) == 0 ? 0xFE : below(255));
    std::fill(data.begin() + ptrdiff_t(scan), data.end() - 2, filling);
    ASSERT_TRUE(agrees(decode_region(data, {0, 0, size.width, size.height}, workspace_),
                       libjpeg_region(data, {0, 0, size.width, size.height})));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, BaselineReaderTest, testing::Values(Isa::kScalar, Isa::kAvx2), isa_name);

}  // namespace
}  // namespace stoker::image
