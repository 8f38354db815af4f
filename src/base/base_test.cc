// SPDX-License-Identifier: Apache-2.0
// Vectors: FIPS 180-4 examples, RFC 4231 case 2, and Random123's known-answer file for Philox4x32-10.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <random>

#include "base/hash.h"
#include "base/home.h"
#include "base/json.h"
#include "base/number.h"
#include "base/random.h"
#include "base/test_folder.h"
#include "base/text.h"

namespace stoker {
namespace {

TEST(Sha256, AgreesWithPublishedVectors) {
  EXPECT_EQ(sha256_hex(as_bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(as_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  // Of many blocks at once, where the CPU has instructions for them, and of one at a time.
  std::vector<uint8_t> bytes(64 * 1000 + 7);
  for (size_t n = 0; n < bytes.size(); ++n) bytes[n] = static_cast<uint8_t>(n * n >> 5);
  Sha256 by_one;
  for (size_t n = 0; n < bytes.size(); ++n) by_one.update({&bytes[n], 1});
  EXPECT_EQ(by_one.finish(), sha256(bytes));
  EXPECT_EQ(to_hex(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Sha256, IsTheSameHoweverTheInputIsCut) {
  std::string text(1000, 'x');
  for (size_t cut : {1u, 55u, 56u, 63u, 64u, 65u, 500u}) {
    Sha256 hasher;
    for (size_t at = 0; at < text.size(); at += cut) hasher.update(as_bytes(text.substr(at, cut)));
    EXPECT_EQ(hasher.finish(), sha256(as_bytes(text))) << cut;
  }
}

TEST(Text, BytesOfOthersAreShownAndHideNothingBehindThem) {
  EXPECT_EQ(shown_text("plain \xc3\xa4\n\ttext \r\n\n"), "plain \xc3\xa4\n\ttext");
  EXPECT_EQ(shown_text(std::string_view("a\0b\x1b[2J\x7f", 8)), "a\\x00b\\x1b[2J\\x7f");
  EXPECT_EQ(shown_text("\xff\xc3("), "\\xff\\xc3(");
  EXPECT_EQ(shown_text("\xc2\x9b"), "\\xc2\\x9b");  // a terminal takes it for an escape
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string shown = shown_text(all);
  EXPECT_EQ(shown_text(shown), shown);
  EXPECT_EQ(Json::parse(Json(shown).dump())->as_string(), shown);
  EXPECT_EQ(shown_text(""), "");
}

TEST(Text, IsFormattedWhole) {
  EXPECT_EQ(formatted("%.1f %s", 2.25, "ms"), "2.2 ms");
  EXPECT_EQ(formatted("%s", std::string(5000, 'x').c_str()), std::string(5000, 'x'));
  EXPECT_EQ(formatted("%s", ""), "");
}

TEST(Text, NoCharacterIsCut) {
  const std::string text = "x\xc3\xa4\xf0\x9f\x98\x80";
  const size_t expected[] = {0, 1, 1, 3, 3, 3, 3, 7, 7};
  for (size_t most = 0; most < 9; ++most) EXPECT_EQ(cut_text(text, most).size(), expected[most]) << most;
  EXPECT_EQ(cut_text("\xff\xff\xff\xff\xff", 4).size(), 4u);
}

TEST(Number, WhatIsNoneOrNotFiniteIsRefused) {
  const NumberLimits grace{0, 3600, "seconds"}, cpus{1, 8, "", true};
  EXPECT_EQ(*typed_number(grace, "2.5"), 2.5);
  EXPECT_EQ(*sent_number(grace, Json(3600)), 3600);
  EXPECT_EQ(*typed_number(cpus, "8"), 8);
  for (const char* text :
       {"nan", "NAN", "-nan", "nan(1)", "inf", "-inf", "infinity", "1e999", "", " 1", "1s", "-1", "3601"})
    EXPECT_FALSE(typed_number(grace, text).ok()) << text;
  for (const Json& sent : {Json(std::nan("")), Json(HUGE_VAL), Json("2"), Json(), Json(true), Json(-1)})
    EXPECT_FALSE(sent_number(grace, sent).ok()) << sent.dump();
  EXPECT_FALSE(typed_number(cpus, "1.5").ok());
  EXPECT_EQ(typed_number(grace, "nan").error().message, "'nan' is not a number from 0 to 3600 (seconds)");
  EXPECT_EQ(typed_number(cpus, "0").error().message, "'0' is not a whole number from 1 to 8");
  EXPECT_EQ(*typed_whole_number(0, int64_t{1} << 60, "1152921504606846975"), (int64_t{1} << 60) - 1);
  for (const char* text : {"nan", "inf", "1.0", "1e3", "", "9"})
    EXPECT_FALSE(typed_whole_number(0, 8, text).ok()) << text;
}

TEST(Philox, AgreesWithKnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  uint32_t f = 0xffffffff;
  EXPECT_EQ(philox4x32_10({f, f, f, f}, {f, f}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(SampleRandom, DrawsStayInRangeAndDoNotRepeat) {
  SampleRandom random(seed_key(7), 123, 1);
  SampleRandom other(seed_key(7), 124, 1);
  EXPECT_NE(random.next_u64(), other.next_u64());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(random.next_below(3), 3u);
    double unit = random.next_unit();
    EXPECT_TRUE(unit >= 0 && unit < 1);
  }
}

TEST(Json, DumpsCanonically) {
  auto parsed = Json::parse(R"( {"b": [1, 2.0, "x\n"], "a": {"z": null, "y": true}, "c": 0.1} )");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->dump(), R"({"a":{"y":true,"z":null},"b":[1,2.0,"x\n"],"c":0.1})");
  EXPECT_EQ(*Json::parse(parsed->dump()), *parsed);
}

TEST(Json, NumbersAreReadExactly) {
  for (const char* text : {"1.3333333333333335", "0.30000000000000004", "5e-324", "1.7976931348623157e+308",
                           "123456789.12345679", "0.1", "-2.2250738585072014e-308", "9007199254740993.0"})
    EXPECT_EQ(Json::parse(text)->as_double(), strtod(text, nullptr)) << text;
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    double value = static_cast<double>(random()) * std::pow(10.0, static_cast<int>(random() % 40) - 30);
    EXPECT_EQ(Json::parse(Json(value).dump())->as_double(), value);
  }
  EXPECT_FALSE(Json::parse("1 2").ok());
  EXPECT_FALSE(Json::parse("").ok());
  for (const char* text : {"1e999", "[-1e400]"}) EXPECT_FALSE(Json::parse(text).ok()) << text;
  EXPECT_EQ(Json::parse("[1, 18446744073709551615, -3]")->as_array()[2].as_int(), -3);
}

TEST(Json, SaysWhatWasWanted) {
  auto parsed = Json::parse(R"({"n": "three"})");
  EXPECT_EQ(parsed->need_int("n").error().message, "\"n\" must be an integer, found a string");
  EXPECT_FALSE(Json::parse("{").ok());
  EXPECT_FALSE(Json::parse(std::string(100, '[') + std::string(100, ']')).ok());
}

TEST(Json, WhatIsDumpedCanBeParsed) {
  EXPECT_EQ(Json("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80").dump(),
            "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"");
  EXPECT_EQ(Json("a\xc3").dump(), "\"a\xef\xbf\xbd\"") << "a text that was cut";
  for (const char* broken : {"\xff", "\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    EXPECT_TRUE(Json::parse(Json(std::string(broken) + "b").dump()).ok()) << Json(broken).dump();
}

TEST(Home, RootLeavesNothingInAnotherUsersFolder) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  for (const char* name : {"STOKER_HOME", "XDG_DATA_HOME"}) unsetenv(name);
  const char* before = getenv("HOME");
  const std::string restored = before ? before : "";
  TestFolder own;
  const std::string& folder = own.path();
  setenv("HOME", folder.c_str(), 1);
  EXPECT_EQ(*stoker_home(), folder + "/.local/share/stoker");
  ASSERT_EQ(chown(folder.c_str(), 65534, 65534), 0);
  EXPECT_EQ(stoker_home()->find(folder), std::string::npos);
  setenv("HOME", restored.c_str(), 1);
}

}  // namespace
}  // namespace stoker
