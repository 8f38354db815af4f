// SPDX-License-Identifier: Apache-2.0
#include "pipeline/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/encoded.h"
#include "pipeline/plan.h"
#include "pipeline/test_archives.h"

namespace stoker::pipeline {
namespace {

// Field `number` of wire kind 2 around `body`.
std::string field(int number, const std::string& body) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  size_t size = body.size();
  for (; size >= 0x80; size >>= 7) out += static_cast<char>(size | 0x80);
  return out + static_cast<char>(size) + body;
}
std::string entry(const std::string& name, const std::string& feature) {
  return field(1, field(1, name) + field(2, feature));
}
std::string example(const std::string& entries) { return field(1, entries); }

const std::string kPicture = field(1, field(1, "pixels"));           // bytes_list
const std::string kPacked = field(3, field(1, "\x07\xac\x02"));      // int64_list, packed: 7, 300
const std::string kUnpacked = field(3, std::string("\x08\x07", 2));  // int64_list of one
const std::string kFloats = field(2, field(1, std::string("\0\0\x80\x3f\0\0\0\xc0", 8)));

TEST(Example, IsReadWhateverFormItsListsHave) {
  std::string bytes = example(entry("image", kPicture) + entry("n", kPacked) + entry("one", kUnpacked) +
                              entry("f", kFloats) + entry("nothing", ""));
  auto features = parse_example(as_bytes(bytes));
  ASSERT_TRUE(features.ok()) << features.error().message;
  ASSERT_EQ(features->size(), 5u);
  EXPECT_EQ(as_text(std::get<1>((*features)[0].values)[0]), "pixels");
  EXPECT_THAT(std::get<3>((*features)[1].values), testing::ElementsAre(7, 300));
  EXPECT_THAT(std::get<3>((*features)[2].values), testing::ElementsAre(7));
  EXPECT_THAT(std::get<2>((*features)[3].values), testing::ElementsAre(1.0f, -2.0f));
  EXPECT_EQ((*features)[4].values.index(), 0u);
  EXPECT_EQ(parse_example({})->size(), 0u);
  EXPECT_FALSE(find_feature(as_bytes(bytes), "absent")->has_value());
}

TEST(Example, TheLastOfANameCounts) {
  std::string bytes = example(entry("n", kPacked) + entry("n", kUnpacked));
  EXPECT_EQ(parse_example(as_bytes(bytes))->size(), 1u);
  EXPECT_THAT(std::get<3>(find_feature(as_bytes(bytes), "n").value()->values), testing::ElementsAre(7));
}

TEST(Example, AnyDamageIsAnErrorOrHarmless) {
  std::string good = example(entry("image", kPicture) + entry("n", kPacked) + entry("f", kFloats));
  for (size_t size = 1; size < good.size(); ++size)
    EXPECT_FALSE(parse_example(as_bytes(good.substr(0, size))).ok()) << size;
  for (size_t at = 0; at < good.size(); ++at)
    for (int flip : {1, 2, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      auto features = parse_example(as_bytes(bad));
      EXPECT_TRUE(features.ok() || features.error().fault->kind == "corrupt");
    }
}

TEST(EncodedOfRecord, NamesWhatIsMissing) {
  ImageSource source{"tfrecord", "/", "", 1, "image", "n"};
  auto message = [&](const std::string& entries) {
    std::string frame = tf_record(example(entries));
    auto encoded = encoded_of_record(as_bytes(frame), "a.tfrecord", 100, source);
    EXPECT_TRUE(encoded.ok() || encoded.error().fault->offset == 100);
    return encoded ? std::to_string(encoded->label) : encoded.error().message;
  };
  EXPECT_EQ(message(entry("image", kPicture) + entry("n", kUnpacked)), "7");
  EXPECT_THAT(message(entry("n", kUnpacked)), testing::HasSubstr("no feature \"image\""));
  EXPECT_THAT(message(entry("image", kPicture)), testing::HasSubstr("no feature \"n\""));
  EXPECT_THAT(message(entry("image", kFloats) + entry("n", kUnpacked)), testing::HasSubstr("holds no bytes"));
  EXPECT_THAT(message(entry("image", kPicture) + entry("n", kPacked)), testing::HasSubstr("of one integer"));
}

}  // namespace
}  // namespace stoker::pipeline
