// SPDX-License-Identifier: Apache-2.0
// The input is a patch of a real store's file, with the hashes of its table made right again if its first
// byte says so: opening it, finding and reading entries stays in bounds, and what was not touched is found.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/test_folder.h"
#include "pipeline/picture_store.h"

using namespace stoker;
using namespace stoker::pipeline;

namespace {

constexpr uint64_t kItems = 8;
constexpr size_t kTable = 64, kEntry = 40;

std::vector<uint8_t> make_store(const std::string& path) {
  auto store = PictureStore::open(path, kItems, 1 << 20);
  CHECK(store.ok());
  for (uint64_t item = 0; item < kItems; ++item)
    store->put(item, 7, std::vector<uint8_t>(50 + 30 * item, static_cast<uint8_t>(item)), 40);
  auto bytes = read_file(path);
  CHECK(bytes.ok());
  return *bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TestFolder folder;
  static const std::string path = folder.path() + "/store";
  static const std::vector<uint8_t> sound = make_store(path);
  if (size < 3) return 0;
  std::vector<uint8_t> bytes = sound;
  for (size_t at = 3; at + 3 <= size; at += 3)
    bytes[load_le<uint16_t>(data + at) % bytes.size()] = data[at + 2];
  if (data[0] % 2 == 1) {
    for (uint64_t item = 0; item < kItems; ++item) {
      uint8_t* entry = &bytes[kTable + item * kEntry];
      store_le(entry + 32, xxh3_64({entry, kEntry - 8}, item));
    }
  }
  bool changed = bytes != sound;
  bytes.resize(bytes.size() - std::min<size_t>(load_le<uint16_t>(data + 1) % 2048, bytes.size()));
  UniqueFd fd = std::move(*open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  CHECK(write_all(fd.get(), bytes).ok());
  auto store = PictureStore::open(path, kItems, 1 << 20);
  CHECK(store.ok());
  std::vector<uint8_t> head;
  for (uint64_t item = 0; item <= kItems; ++item) {
    store->will_need(item);
    auto found = store->find(item, 7, head);
    if (bytes.size() == sound.size() && !changed) CHECK(found.has_value() == (item < kItems));
    if (!found || found->size > 1 << 20) continue;
    CHECK(head.size() == found->head);
    std::vector<uint8_t> rest(found->size - found->head);
    (void)store->read(*found, found->head, rest);
  }
  store->put(1, 9, std::vector<uint8_t>(20, 1), 20);
  CHECK(store->find(1, 9, head).has_value());
  return 0;
}
