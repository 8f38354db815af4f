// SPDX-License-Identifier: Apache-2.0
#include "pipeline/gunzip.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "pipeline/manifest.h"

namespace stoker::pipeline {
namespace {

constexpr size_t kPiece = 256 << 10;
constexpr int kGzipOnly = 16 + MAX_WBITS;

struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

}  // namespace

Status gunzip(const RandomAccess& packed, const std::string& name, uint64_t most,
              const std::function<Status(ByteView)>& sink) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) return internal("zlib does not start");
  std::unique_ptr<z_stream, EndInflate> owner(&stream);
  std::vector<uint8_t> in(kPiece), out(kPiece);
  uint64_t read = 0, written = 0;
  bool in_member = true;  // the next byte belongs to one, or must begin one
  while (true) {
    if (stream.avail_in == 0 && read < packed.size()) {
      auto take = static_cast<size_t>(std::min<uint64_t>(kPiece, packed.size() - read));
      STOKER_TRY(packed.read(read, {in.data(), take}));
      stream.next_in = in.data();
      stream.avail_in = static_cast<uInt>(take);
      read += take;
    }
    uint64_t at = read - stream.avail_in;
    if (stream.avail_in == 0 && !in_member) return ok();
    if (stream.avail_in == 0) return damaged("truncated", name, at, "the gzip stream is cut short");
    if (!in_member) {
      if (inflateReset(&stream) != Z_OK) return internal("zlib does not start again");
      in_member = true;
    }
    stream.next_out = out.data();
    stream.avail_out = static_cast<uInt>(kPiece);
    int result = inflate(&stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      at = read - stream.avail_in;
      return damaged(
          "corrupt", name, at,
          std::string("the gzip stream is damaged: ") + (stream.msg ? stream.msg : "zlib refuses it"));
    }
    size_t got = kPiece - stream.avail_out;
    written += got;
    if (written > most) {
      return damaged("too_large", name, at,
                     "it unpacks to more than " + std::to_string(most) + " bytes; unpack it yourself");
    }
    if (got > 0) STOKER_TRY(sink({out.data(), got}));
    if (result == Z_STREAM_END) in_member = false;
  }
}

Result<std::string> unpacked_file(const std::string& path, const FileStamp& stamp,
                                  const RandomAccess& packed) {
  std::string cache;
  STOKER_ASSIGN(cache, cache_folder());
  std::string folder = cache + "/unpacked";
  std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  std::string key = std::string(real ? real.get() : path.c_str()) + '\0' + std::to_string(stamp.size) + '\0' +
                    std::to_string(stamp.mtime_ns);
  std::string plain = folder + "/" + sha256_hex(as_bytes(key));
  if (access(plain.c_str(), R_OK) == 0) return plain;
  auto failed = [&](Error error) {
    if (error.code == Code::kNoSpace)
      error.message += "; free space there, or name another folder for the cache with XDG_CACHE_HOME";
    return std::move(error).during("unpacking " + path + " into stoker's cache, " + folder);
  };
  if (auto made = make_directories(folder, 0700); !made.ok()) return failed(std::move(made).error());
  std::string beside = plain + ".XXXXXX";
  UniqueFd fd(mkostemp(beside.data(), O_CLOEXEC));
  if (!fd) return failed(errno_error("making a file", errno));
  auto unpacked =
      gunzip(packed, path, kMaxUnpackedBytes, [&](ByteView bytes) { return write_all(fd.get(), bytes); });
  if (unpacked.ok() && rename(beside.c_str(), plain.c_str()) == 0) return plain;
  int why = errno;
  unlink(beside.c_str());
  if (unpacked.ok()) return failed(errno_error("renaming", why));
  Error error = std::move(unpacked).error();
  return error.fault ? std::move(error) : failed(std::move(error));  // a fault is the file's own
}

}  // namespace stoker::pipeline
