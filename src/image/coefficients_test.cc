// SPDX-License-Identifier: Apache-2.0
// Pixels from kept coefficients are those of the JPEG, for every kind of picture that is ours and any region,
// on every instruction set, whichever made them; what is damaged is seen; and no bytes are read out of
// bounds.
#include "image/coefficients.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "image/isa_test.h"
#include "image/libjpeg_oracle.h"
#include "image/resized_crop.h"
#include "image/test_coefficients.h"
#include "image/test_pictures.h"

namespace stoker::image {
namespace {

class CoefficientsTest : public IsaTest {
 protected:
  CoefficientsTest() : IsaTest(9) {}
  JpegKind our_kind() {
    const int samplings[][2] = {{2, 2}, {2, 1}, {1, 1}};
    const int* sampling = samplings[below(3)];
    JpegKind kind;
    kind.luma_h = sampling[0];
    kind.luma_v = sampling[1];
    kind.optimized = below(2) == 0;
    kind.quality = below(3) == 0 ? 100 : 10 + below(91);  // at 100 values need two bytes
    return kind;
  }
};

TEST_P(CoefficientsTest, RegionsAreTheJpegs) {
  int wide = 0;
  for (int round = 0; round < 150; ++round) {
    Size size{5 + below(400), 1 + below(300)};
    JpegKind kind = our_kind();
    auto data = make_jpeg(size, kind, random_);
    auto made = make_coefficients(data, 0, workspace_);
    ASSERT_TRUE(made.has_value()) << kind.text();
    InMemoryCoefficients kept(*made);
    wide += kept.has_wide();
    for (int i = 0; i < 6; ++i) {
      Box box = i == 0 ? Box{0, 0, size.width, size.height} : any_box(size);
      ASSERT_EQ(kept_region(kept, box, GetParam()), baseline_region(data, box, GetParam())) << kind.text();
    }
  }
  EXPECT_GT(wide, 20) << "blocks whose values need two bytes are among them";
}

TEST_P(CoefficientsTest, TheSameBytesWhoeverMakesThem) {
  for (int round = 0; round < 30; ++round) {
    auto data = make_jpeg({5 + below(300), 1 + below(200)}, our_kind(), random_);
    workspace_.parts().kernels = kernels_of(Isa::kScalar);
    auto scalar = make_coefficients(data, 5, workspace_);
    workspace_.parts().kernels = kernels_of(GetParam());
    auto made = make_coefficients(data, 5, workspace_);
    ASSERT_EQ(made->bytes, scalar->bytes);
  }
}

TEST_P(CoefficientsTest, ACropOfTheTrainingPathIsThatOfTheFile) {
  for (int round = 0; round < 100; ++round) {
    Size size{20 + below(400), 20 + below(300)};
    auto data = make_jpeg(size, our_kind(), random_);
    InMemoryCoefficients kept(*make_coefficients(data, 0, workspace_));
    ResizedCrop params{.crop = any_box(size), .size = {1 + below(80), 1 + below(80)}, .flip = below(2) == 0};
    std::vector<uint8_t> want(size_t(3 * params.size.width * params.size.height)), got(want.size());
    ASSERT_TRUE(decode_resized_crop(data, params, HwcBytes{want.data()}, workspace_).ok());
    ASSERT_TRUE(decode_resized_crop(StoredPicture(kept), params, HwcBytes{got.data()}, workspace_).ok());
    ASSERT_EQ(got, want);
  }
}

TEST_P(CoefficientsTest, OnlySoundPicturesHaveThem) {
  for (int round = 0; round < 200; ++round) {
    Size size{5 + below(200), 1 + below(200)};
    auto data = make_jpeg(size, our_kind(), random_);
    size_t scan = read_jpeg_frame(data)->scan;
    for (int i = below(3); i >= 0; --i) data[scan + random_() % (data.size() - scan)] = uint8_t(random_());
    auto made = make_coefficients(data, 0, workspace_);
    Box whole{0, 0, size.width, size.height};
    auto plain = baseline_region(data, whole, GetParam());
    ASSERT_TRUE(plain || !made);
    if (!made) continue;
    InMemoryCoefficients kept(*made);
    ASSERT_EQ(kept_region(kept, whole, GetParam()), plain);
  }
  JpegKind gray;
  gray.components = gray.luma_h = gray.luma_v = 1;
  EXPECT_FALSE(make_coefficients(make_jpeg({64, 64}, gray, random_), 0, workspace_).has_value());
  EXPECT_FALSE(make_coefficients({}, 0, workspace_).has_value());
}

TEST_P(CoefficientsTest, DamagedRowsAreSeenAndNothingIsReadOutOfBounds) {
  for (int round = 0; round < 200; ++round) {
    Size size{5 + below(200), 1 + below(200)};
    auto data = make_jpeg(size, our_kind(), random_);
    MadeCoefficients made = *make_coefficients(data, 0, workspace_);
    MadeCoefficients bad = made;
    // Rows: any change is seen by their hashes. Head: the store's hash is for that; here only bounds matter.
    bool of_head = below(2) == 0;
    for (int i = below(4); i >= 0; --i) {
      size_t at = of_head ? random_() % bad.head : bad.head + random_() % (bad.bytes.size() - bad.head);
      bad.bytes[at] = uint8_t(random_());
    }
    bool rehashed = below(2) == 0;
    if (rehashed) rehash(&bad);
    InMemoryCoefficients kept(bad);
    for (int i = 0; i < 4; ++i) {
      Box box = i == 0 ? Box{0, 0, size.width, size.height} : any_box(size);
      auto got = kept_region(kept, box, GetParam());
      if (of_head || bad.bytes == made.bytes || !got) continue;
      InMemoryCoefficients sound(made);
      ASSERT_TRUE(rehashed || got == kept_region(sound, box, GetParam()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, CoefficientsTest, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         isa_name);

}  // namespace
}  // namespace stoker::image
