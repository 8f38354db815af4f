// SPDX-License-Identifier: Apache-2.0
// The handed tar cases run in python/stoker/data/containers_test.py.
#include "pipeline/tar_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/test_archives.h"

namespace stoker::pipeline {
namespace {

struct Walk {
  std::vector<std::string> members;  // "name size", links as "name -"
  std::string kind;                  // of the error
  int64_t offset = -1;
  bool trailing = false;
  bool closed = false;
};

Walk walk(const std::string& archive) {
  MemoryAccess bytes(as_bytes(archive));
  std::string name = "x.tar";
  TarReader reader(bytes, name);
  Walk out;
  while (true) {
    auto member = reader.next();
    if (!member) {
      EXPECT_EQ(member.error().code, Code::kData);
      out.kind = member.error().fault->kind;
      out.offset = member.error().fault->offset;
      return out;
    }
    if (!*member) break;
    out.members.push_back((*member)->name + " " +
                          ((*member)->regular ? std::to_string((*member)->size) : "-"));
  }
  out.trailing = reader.has_trailing();
  out.closed = reader.is_closed();
  return out;
}

using testing::ElementsAre;

TEST(TarReader, ReadsEachWayToNameAndSizeAMember) {
  std::string pax = "16 path=a/b.txt\n";  // the record states its own length
  std::string archive = tar_member("plain.jpg", "12345") + tar_member("d/", "", '5') +
                        tar_member("././@LongLink", std::string(150, 'n') + '\0', 'L') +
                        tar_member("cut", "x") + tar_member("pax", pax, 'x') + tar_member("ignored", "yz") +
                        tar_member("link", "", '2') + tar_member("empty", "") +
                        tar_header("big", std::string("\x80\0\0\0\0\0\0\0\0\0\0\x03", 12), '0') + "abc" +
                        std::string(509, '\0') + tar_end();
  Walk found = walk(archive);
  EXPECT_THAT(found.members, ElementsAre("plain.jpg 5", "d/ -", std::string(150, 'n') + " 1", "a/b.txt 2",
                                         "link -", "empty 0", "big 3"));
  EXPECT_EQ(found.kind, "");
  EXPECT_FALSE(found.trailing);
}

TEST(TarReader, SaysWhatFollowsTheEnd) {
  std::string whole = tar_member("a", "1") + tar_end();
  EXPECT_FALSE(walk(whole + std::string(5000, '\0')).trailing);
  Walk twice = walk(whole + tar_member("b", "2"));
  EXPECT_THAT(twice.members, ElementsAre("a 1"));
  EXPECT_TRUE(twice.trailing);
  EXPECT_TRUE(twice.closed);
  EXPECT_EQ(walk(tar_member("a", "1")).kind, "") << "without closing blocks, otherwise whole";
  EXPECT_FALSE(walk(tar_member("a", "1")).closed);
  EXPECT_TRUE(walk(tar_member("a", "1") + std::string(512, '\0')).closed) << "one block";
  EXPECT_EQ(walk(tar_end()).members.size(), 0u);
}

TEST(TarReader, FindsWhereAnArchiveIsDamaged) {
  std::string whole = tar_member("a", "1") + tar_member("b", std::string(600, 'b')) + tar_end();
  EXPECT_EQ(walk("").kind, "empty");
  EXPECT_EQ(walk("short").kind, "not_tar");
  EXPECT_EQ(walk(std::string(2000, 'j')).kind, "not_tar");
  std::string bad = whole;
  bad[1024 + 3] ^= 1;
  EXPECT_EQ(walk(bad).kind, "corrupt");
  EXPECT_EQ(walk(bad).offset, 1024);
  EXPECT_EQ(walk(whole.substr(0, 1024 + 300)).kind, "truncated") << "inside a header";
  EXPECT_EQ(walk(whole.substr(0, 1024 + 512 + 599)).kind, "truncated") << "inside a member";
  for (int padding : {0, 1, 423}) {
    Walk cut = walk(whole.substr(0, size_t{1024 + 512 + 600} + static_cast<size_t>(padding)));
    EXPECT_EQ(cut.kind, "truncated") << "in the padding behind it";
    EXPECT_EQ(cut.offset, int64_t{1024 + 512 + 600} + padding);
  }
  EXPECT_EQ(
      walk(tar_header("a", std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12), '0')).kind,
      "truncated");
  EXPECT_EQ(walk(tar_member("p", "99 path=x\n", 'x') + tar_member("a", "1")).kind, "corrupt");
}

TEST(TarReader, AnyDamageIsAnErrorOrHarmless) {
  std::string good =
      tar_member("a", "1") + tar_member("pax", "16 path=a/b.txt\n", 'x') + tar_member("b", "22");
  for (size_t size = 0; size < good.size(); size += 7) (void)walk(good.substr(0, size));
  for (size_t at = 0; at < good.size(); ++at)
    for (int flip : {1, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      (void)walk(bad);
    }
}

}  // namespace
}  // namespace stoker::pipeline
