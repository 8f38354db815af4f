// SPDX-License-Identifier: Apache-2.0
// Archives made by hand, for tests of their readers.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/test_folder.h"

namespace stoker::pipeline {

// A folder that is also the cache.
class OwnFolder : public TestFolder {
 public:
  OwnFolder() { setenv("XDG_CACHE_HOME", (path() + "/cache").c_str(), 1); }
  // Old enough for what is made of it to be kept.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::string at = path() + "/" + name;
    std::ofstream(at, std::ios::binary) << bytes;
    auto then = std::filesystem::last_write_time(at) - std::chrono::seconds(10);
    std::filesystem::last_write_time(at, then);
    return at;
  }
};

inline std::string tar_header(const std::string& name, const std::string& size_field, char type) {
  std::string block(512, '\0');
  auto put = [&](size_t at, const std::string& text) { block.replace(at, text.size(), text); };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, size_field);
  put(148, "        ");
  block[156] = type;
  put(257, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (char c : block) sum += static_cast<unsigned char>(c);
  char text[9];
  snprintf(text, sizeof text, "%06o", sum);
  put(148, std::string(text) + '\0');
  return block;
}

inline std::string octal(size_t size) {
  char text[16];
  snprintf(text, sizeof text, "%011zo", size);
  return text;
}

inline std::string tar_member(const std::string& name, const std::string& data, char type = '0') {
  std::string padding((512 - data.size() % 512) % 512, '\0');
  return tar_header(name, octal(data.size()), type) + data + padding;
}

inline std::string tar_end() { return std::string(1024, '\0'); }

inline std::string tf_record(const std::string& data) {
  std::string out(12, '\0');
  auto* head = reinterpret_cast<uint8_t*>(out.data());
  store_le<uint64_t>(head, data.size());
  store_le(head + 8, masked_crc32c({head, 8}));
  out += data + "....";
  store_le(reinterpret_cast<uint8_t*>(out.data()) + 12 + data.size(), masked_crc32c(as_bytes(data)));
  return out;
}

}  // namespace stoker::pipeline
