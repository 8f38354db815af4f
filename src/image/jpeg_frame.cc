// SPDX-License-Identifier: Apache-2.0
#include "image/jpeg_frame.h"

#include <string_view>

namespace stoker::image {
namespace {

constexpr int kMaxSide = 65500;  // libjpeg's
constexpr int kTables = 2;       // what baseline allows

int be16(const uint8_t* at) { return at[0] << 8 | at[1]; }

class Reader {
 public:
  explicit Reader(ByteView data) : data_(data) {}

  std::optional<JpegFrame> read() {
    if (data_.size() < 4 || data_[0] != 0xFF || data_[1] != 0xD8) return {};
    size_t at = 2;
    for (;;) {
      if (data_.size() - at < 4 || data_[at] != 0xFF) return {};
      int marker = data_[at + 1];
      if (marker == 0xFF) {  // a fill byte
        ++at;
        continue;
      }
      size_t length = size_t(be16(&data_[at + 2]));
      if (length < 2 || length > data_.size() - at - 2) return {};
      ByteView body = data_.subspan(at + 4, length - 2);
      at += 2 + length;
      if (marker == 0xDA) {
        if (!scan(body) || !is_ycc()) return {};
        frame_.scan = at;
        return frame_;
      }
      if (!segment(marker, body)) return {};
    }
  }

 private:
  bool segment(int marker, ByteView body) {
    switch (marker) {
      case 0xC0:
        return frame(body);
      case 0xC4:
        return huffman(body);
      case 0xDB:
        return quant(body);
      case 0xDD:
        return body.size() == 2 && be16(body.data()) == 0;
      case 0xE0:
        return jfif(body);
      case 0xEE:
        return adobe(body);
      default:
        return (marker >= 0xE1 && marker <= 0xEF) || marker == 0xFE;
    }
  }

  bool jfif(ByteView body) {
    if (body.size() < 14 || as_text(body.subspan(0, 5)) != std::string_view("JFIF\0", 5)) return true;
    jfif_ = true;
    return body[5] == 1;  // the major version; libjpeg warns of others
  }

  bool adobe(ByteView body) {
    if (body.size() < 12 || as_text(body.subspan(0, 5)) != "Adobe") return true;
    adobe_ = true;
    transform_ = body[11];
    return true;
  }

  // libjpeg's rule for what the three components mean.
  bool is_ycc() const {
    if (jfif_) return true;
    if (adobe_) return transform_ == 1;
    return ids_[0] == 1 && ids_[1] == 2 && ids_[2] == 3;
  }

  bool frame(ByteView body) {
    if (framed_ || body.size() != 6 + 3 * 3 || body[0] != 8 || body[5] != 3) return false;
    framed_ = true;
    frame_.size = {be16(&body[3]), be16(&body[1])};
    if (frame_.size.width <= 0 || frame_.size.height <= 0) return false;
    if (frame_.size.width > kMaxSide || frame_.size.height > kMaxSide) return false;
    for (int c = 0; c < 3; ++c) {
      const uint8_t* entry = &body[size_t(6 + 3 * c)];
      ids_[c] = entry[0];
      quant_of_[c] = entry[2];
      if (c > 0 && entry[1] != 0x11) return false;
      if (quant_of_[c] >= 4) return false;
    }
    if (ids_[0] == ids_[1] || ids_[0] == ids_[2] || ids_[1] == ids_[2]) return false;
    frame_.luma_h = body[7] >> 4;
    frame_.luma_v = body[7] & 15;
    return body[7] == 0x11 || body[7] == 0x21 || body[7] == 0x22;
  }

  bool quant(ByteView body) {
    if (body.size() % 65 != 0) return false;
    for (; !body.empty(); body = body.subspan(65)) {
      if (body[0] >= 4) return false;  // 16-bit steps, or no such table
      quants_[body[0]] = &body[1];
    }
    return true;
  }

  bool huffman(ByteView body) {
    while (!body.empty()) {
      if (body.size() < 17) return false;
      int table = body[0] & 15;
      int kind = body[0] >> 4;
      size_t symbols = 0;
      for (size_t i = 1; i <= 16; ++i) symbols += body[i];
      if (table >= kTables || kind > 1 || symbols > 256 || symbols > body.size() - 17) return false;
      (kind == 0 ? dc_ : ac_)[table] = body.subspan(1, 16 + symbols);
      body = body.subspan(17 + symbols);
    }
    return true;
  }

  bool scan(ByteView body) {
    if (!framed_ || body.size() != 10 || body[0] != 3) return false;
    for (int c = 0; c < 3; ++c) {
      int dc = body[size_t(2 + 2 * c)] >> 4;
      int ac = body[size_t(2 + 2 * c)] & 15;
      if (body[size_t(1 + 2 * c)] != ids_[c] || dc >= kTables || ac >= kTables) return false;
      JpegComponent& component = frame_.components[size_t(c)];
      component = {quants_[quant_of_[c]], dc_[dc], ac_[ac]};
      if (component.quant == nullptr || component.dc.empty() || component.ac.empty()) return false;
    }
    return body[7] == 0 && body[8] == 63 && body[9] == 0;
  }

  ByteView data_;
  JpegFrame frame_;
  bool framed_ = false;
  bool jfif_ = false;
  bool adobe_ = false;
  int transform_ = 0;
  int ids_[3] = {};
  int quant_of_[3] = {};
  const uint8_t* quants_[4] = {};
  ByteView dc_[kTables];
  ByteView ac_[kTables];
};

}  // namespace

std::optional<JpegFrame> read_jpeg_frame(ByteView data) { return Reader(data).read(); }

}  // namespace stoker::image
