// SPDX-License-Identifier: Apache-2.0
#include "pipeline/containers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/files.h"
#include "pipeline/gunzip.h"
#include "pipeline/item_reader.h"
#include "pipeline/test_archives.h"
#include "pipeline/tfrecord.h"

namespace stoker::pipeline {
namespace {

std::string two_samples() {
  return tar_member("x/0.JPG", "picture zero") + tar_member("x/0.cls", " 7\n") +
         tar_member("x/1.png", std::string(700, 'p')) + tar_member("x/1.cls", "-2") + tar_end();
}

std::string gzipped(const std::string& plain) {
  std::string out(plain.size() + 1000, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

std::string read_item(const ItemReader& reader, uint64_t item) {
  std::vector<uint8_t> buffer;
  auto bytes = reader.read(item, buffer);
  return bytes ? std::string(as_text(*bytes)) : "error: " + bytes.error().message;
}

TEST(TarShards, ArePicturesWithLabels) {
  OwnFolder folder;
  std::string plain = folder.write("a.tar", two_samples()),
              packed = folder.write("b.tgz", gzipped(two_samples()));
  auto shards = TarShards::open({plain, packed});
  ASSERT_TRUE(shards.ok()) << shards.error().message;
  ASSERT_EQ(shards->samples(), 4u);
  EXPECT_TRUE(shards->shards()[1].container.gzip);
  auto picked = shards->pick({"jpg", "png"}, "cls", false, "");
  ASSERT_TRUE(picked.ok()) << picked.error().message;
  EXPECT_TRUE(picked->samples.empty());
  EXPECT_THAT(picked->manifest.labels(), testing::ElementsAre(7, -2, 7, -2));
  EXPECT_THAT(picked->manifest.file_starts(), testing::ElementsAre(0, 2, 4));
  ItemReader reader(picked->manifest, "/");
  for (uint64_t item : {0, 2}) EXPECT_EQ(read_item(reader, item), "picture zero");
  for (uint64_t item : {1, 3}) EXPECT_EQ(read_item(reader, item), std::string(700, 'p'));
  EXPECT_FALSE(shards->pick({"jpg"}, "cls", false, "").ok()) << "sample 1 has no jpg";
  auto some = shards->pick({"jpg"}, "", true, "");
  EXPECT_THAT(some->samples, testing::ElementsAre(0, 2));
  EXPECT_EQ(some->manifest.label(0), -1);
}

TEST(TarShards, AreIndexedOnceAndAgainWhenTheyChange) {
  OwnFolder folder;
  std::string path = folder.write("a.tar", two_samples());
  EXPECT_FALSE(open_tar(path)->from_cache);
  EXPECT_TRUE(open_tar(path)->from_cache);
  for (const auto& kept : std::filesystem::directory_iterator(folder.path() + "/cache/stoker/indexes")) {
    auto bytes = *read_file(kept.path());
    bytes[100] ^= 1;
    ASSERT_TRUE(write_file_atomic(kept.path(), bytes).ok());
  }
  EXPECT_FALSE(open_tar(path)->from_cache) << "a damaged index is made anew";
  folder.write("a.tar", tar_member("0.jpg", "x"));
  auto changed = open_tar(path);
  EXPECT_FALSE(changed->from_cache);
  EXPECT_EQ(changed->index.samples(), 1u);
}

TEST(TarShards, AChangedShardIsNotReadByAnOldManifest) {
  OwnFolder folder;
  std::string path = folder.write("a.tar", two_samples());
  auto picked = TarShards::open({path})->pick({"jpg", "png"}, "cls", false, "");
  folder.write("a.tar", two_samples() + tar_end());
  ItemReader reader(picked->manifest, "/");
  EXPECT_THAT(read_item(reader, 0), testing::HasSubstr("when it was indexed"));
}

TEST(TarIndex, GroupsAsWebDatasetDoes) {
  auto name = [](const char* member) {
    auto split = split_member_name(member);
    return split ? std::string(split->base) + " | " + split->field : "none";
  };
  EXPECT_EQ(name("a/b.c/0.left.PNG"), "a/b.c/0 | left.png");
  EXPECT_EQ(name("0"), "none");
  EXPECT_EQ(name(".DS_Store"), "none");
  EXPECT_EQ(name("./._0.jpg"), "none");
  EXPECT_EQ(name("train/._0.jpg"), "train/ | _0.jpg") << "WebDataset's own pattern";
  EXPECT_EQ(name("v1.0/._0.jpg"), "none");
  EXPECT_EQ(name("x/__meta__"), "none");
}

TEST(TarIndex, ADuplicateFieldNamesItsSample) {
  std::string archive = tar_member("k.jpg", "1") + tar_member("k.JPG", "2");
  Container shard{"d.tar", {archive.size(), 0}, false, std::make_shared<MemoryAccess>(as_bytes(archive))};
  auto index = TarIndex::build(shard);
  ASSERT_FALSE(index.ok());
  EXPECT_EQ(index.error().fault->kind, "duplicate_field");
  EXPECT_THAT(index.error().message,
              testing::AllOf(testing::HasSubstr("d.tar"), testing::HasSubstr("sample k")));
}

TEST(TarIndex, AnyDamageIsRefusedOrStillSafeToRead) {
  std::string archive = two_samples();
  Container shard{"d.tar", {archive.size(), 0}, false, std::make_shared<MemoryAccess>(as_bytes(archive))};
  auto index = TarIndex::build(shard);
  ASSERT_TRUE(index.ok()) << index.error().message;
  std::vector<uint8_t> good(index->bytes().begin(), index->bytes().end());
  for (size_t at = 0; at < good.size(); ++at) {
    std::vector<uint8_t> bad = good;
    bad[at] ^= 0x41;
    EXPECT_FALSE(TarIndex::from_bytes(bad, "d").ok()) << at;
    EXPECT_FALSE(TarIndex::from_bytes({good.begin(), good.begin() + static_cast<ptrdiff_t>(at)}, "d").ok());
  }
}

TEST(TfRecords, AreIndexedByTheirLengths) {
  OwnFolder folder;
  std::string records = tf_record("first") + tf_record("") + tf_record(std::string(100'000, 'r'));
  std::string a = folder.write("a.tfrecord", records),
              b = folder.write("b.tfrecord.gz", gzipped(tf_record("b")));
  for (int turn = 0; turn < 2; ++turn) {
    auto manifest = index_tfrecords({a, b}, "");
    ASSERT_TRUE(manifest.ok()) << manifest.error().message;
    ASSERT_EQ(manifest->items(), 4u);
    ItemReader reader(*manifest, "/");
    std::string frame = read_item(reader, 2);
    auto data = record_data(as_bytes(frame), a, 0);
    ASSERT_TRUE(data.ok()) << data.error().message;
    EXPECT_EQ(data->size(), 100'000u);
    EXPECT_EQ(read_item(reader, 3), tf_record("b"));
    frame[100] ^= 1;
    EXPECT_EQ(record_data(as_bytes(frame), a, 5).error().fault->kind, "corrupt_data");
  }
}

TEST(TfRecords, DamageIsFoundWithItsOffset) {
  auto walk = [](const std::string& bytes) {
    auto walked = for_each_record(MemoryAccess(as_bytes(bytes)), "x", [](RecordFrame) {});
    return walked.ok() ? "" : walked.error().fault->kind + " " + std::to_string(walked.error().fault->offset);
  };
  std::string good = tf_record("first") + tf_record("second");
  EXPECT_EQ(walk(good), "");
  EXPECT_EQ(walk(""), "");
  EXPECT_EQ(walk(good + std::string(30, '\0')), "corrupt_length " + std::to_string(good.size()));
  for (size_t size = 22; size < good.size(); ++size) EXPECT_EQ(walk(good.substr(0, size)), "truncated 21");
  good[21] ^= 1;
  EXPECT_EQ(walk(good), "corrupt_length 21");
}

TEST(Gunzip, FindsCutAndDamagedStreams) {
  std::string packed = gzipped(two_samples());
  auto unpack = [](const std::string& bytes, uint64_t most) -> std::string {
    std::string out;
    auto done = gunzip(MemoryAccess(as_bytes(bytes)), "x.gz", most, [&](ByteView piece) {
      out += as_text(piece);
      return ok();
    });
    return done.ok() ? out : done.error().fault->kind;
  };
  EXPECT_EQ(unpack(packed, 1 << 20), two_samples());
  EXPECT_EQ(unpack(packed + packed, 1 << 20), two_samples() + two_samples());
  EXPECT_EQ(unpack(packed, 100), "too_large");
  EXPECT_EQ(unpack(packed.substr(0, packed.size() - 3), 1 << 20), "truncated");
  packed[packed.size() / 2] ^= 0x55;
  EXPECT_EQ(unpack(packed, 1 << 20), "corrupt");
}

}  // namespace
}  // namespace stoker::pipeline
