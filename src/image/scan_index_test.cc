// SPDX-License-Identifier: Apache-2.0
// With an index the pixels are those without, for every kind of picture that is ours and any region; only
// sound pictures have one; and whatever stands in an index, reading it is safe.
#include "image/scan_index.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "image/isa_test.h"
#include "image/libjpeg_oracle.h"
#include "image/resized_crop.h"
#include "image/test_pictures.h"

namespace stoker::image {
namespace {

class ScanIndexTest : public IsaTest {
 protected:
  ScanIndexTest() : IsaTest(5) {}
  JpegKind our_kind() {
    const int samplings[][2] = {{2, 2}, {2, 1}, {1, 1}};
    const int* sampling = samplings[below(3)];
    JpegKind kind;
    kind.luma_h = sampling[0];
    kind.luma_v = sampling[1];
    kind.optimized = below(2) == 0;
    kind.quality = 20 + below(81);
    return kind;
  }
};

TEST_P(ScanIndexTest, RegionsAreThoseWithoutIt) {
  for (int round = 0; round < 150; ++round) {
    Size size{5 + below(500), 1 + below(300)};
    JpegKind kind = our_kind();
    auto data = make_jpeg(size, kind, random_);
    auto index = make_scan_index(data, workspace_);
    ASSERT_TRUE(index.has_value()) << kind.text();
    for (int i = 0; i < 6; ++i) {
      Box box = i == 0 ? Box{0, 0, size.width, size.height} : any_box(size);
      auto plain = baseline_region(data, box, GetParam());
      ASSERT_TRUE(plain.has_value());
      ASSERT_EQ(baseline_region(data, box, GetParam(), *index), plain) << kind.text();
    }
  }
}

TEST_P(ScanIndexTest, IsSmall) {
  JpegKind kind;
  kind.quality = 94;
  auto data = make_jpeg({640, 480}, kind, random_);
  EXPECT_LT(double(make_scan_index(data, workspace_)->size()), 0.02 * double(data.size()));
}

TEST_P(ScanIndexTest, OnlySoundPicturesOfOurKindHaveOne) {
  for (int round = 0; round < 300; ++round) {
    Size size{5 + below(200), 1 + below(200)};
    auto data = make_jpeg(size, our_kind(), random_);
    size_t scan = read_jpeg_frame(data)->scan;
    for (int i = below(3); i >= 0; --i) data[scan + random_() % (data.size() - scan)] = uint8_t(random_());
    auto index = make_scan_index(data, workspace_);
    Box whole{0, 0, size.width, size.height};
    auto plain = baseline_region(data, whole, GetParam());
    // Damage that the last row of units alone shows is not looked for without an index.
    ASSERT_TRUE(plain || !index);
    ASSERT_TRUE(!index || baseline_region(data, whole, GetParam(), *index) == plain);
  }
  JpegKind progressive;
  progressive.progressive = true;
  EXPECT_FALSE(make_scan_index(make_jpeg({64, 64}, progressive, random_), workspace_).has_value());
  EXPECT_FALSE(make_scan_index({}, workspace_).has_value());
}

TEST_P(ScanIndexTest, AWrongOneIsNotFollowedOutOfBounds) {
  for (int round = 0; round < 300; ++round) {
    Size size{5 + below(300), 1 + below(200)};
    auto data = make_jpeg(size, our_kind(), random_);
    auto index = *make_scan_index(data, workspace_);
    for (int i = below(12); i >= 0; --i) index[random_() % index.size()] = uint8_t(random_());
    if (below(8) == 0) index.resize(random_() % index.size());
    for (int i = 0; i < 4; ++i) (void)baseline_region(data, any_box(size), GetParam(), index);
    Box whole{0, 0, size.width, size.height};
    (void)decode_resized_crop({data, index}, {.crop = whole, .size = {8, 8}},
                              HwcBytes{std::vector<uint8_t>(192).data()}, workspace_);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, ScanIndexTest, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         isa_name);

}  // namespace
}  // namespace stoker::image
