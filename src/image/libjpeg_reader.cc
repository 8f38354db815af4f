// SPDX-License-Identifier: Apache-2.0
#include "image/libjpeg_reader.h"

#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "image/fault.h"

namespace stoker::image {
namespace {

constexpr int kMaxScans =
    500;  // far over what encoders write; bounds the time that a small hostile file can take

// Pillow's product of two bytes over 255, rounded.
int over_255(int a, int b) {
  int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// Pillow's conversion; JPEG holds the inks inverted, so 255 is none. In place: four bytes become three.
void inks_to_rgb(uint8_t* row, size_t pixels) {
  const uint8_t* in = row;
  for (size_t x = 0; x < pixels; ++x, in += 4, row += 3) {
    int white = in[3];
    for (int c = 0; c < 3; ++c) {
      int value = white - over_255(255 - in[c], white);
      row[c] = uint8_t(value < 0 ? 0 : value);
    }
  }
}

const char* kind_of(int code) {
  switch (code) {
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_NOT_COMPILED:
      return "unsupported";
    case JERR_INPUT_EOF:
    case JERR_INPUT_EMPTY:
      return "truncated";
    case JERR_OUT_OF_MEMORY:
    case JERR_IMAGE_TOO_BIG:
      return "too_large";
    default:
      return "corrupt";
  }
}

}  // namespace

// libjpeg calls back with pointers to its own parts, so they come first in the struct and are found by a
// cast.
struct LibjpegReader::State {
  jpeg_decompress_struct codec = {};
  jpeg_error_mgr errors = {};
  jpeg_source_mgr source = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf escape = {};
  ByteView data;
  bool inks = false;  // four components
  int top = 0;        // first row of the region
  int bottom = 0;     // first row after it
  size_t lead = 0;    // bytes of a decoded row before the region
  int code = 0;
  char message[JMSG_LENGTH_MAX] = {};

  static State& of(j_common_ptr codec) { return *static_cast<State*>(codec->client_data); }
  static State& of(j_decompress_ptr codec) { return *static_cast<State*>(codec->client_data); }

  [[noreturn]] void fail(int error, const char* text) {
    code = error;
    std::snprintf(message, sizeof message, "%s", text);
    std::longjmp(escape, 1);
  }

  [[noreturn]] void run_out(const char* text) {
    source.next_input_byte = data.data() + data.size();
    source.bytes_in_buffer = 0;
    fail(JERR_INPUT_EOF, text);
  }

  Error error() {
    int64_t offset = -1;
    if (source.next_input_byte >= data.data() && source.next_input_byte <= data.data() + data.size()) {
      offset = source.next_input_byte - data.data();
    }
    jpeg_abort_decompress(&codec);
    return fault(kind_of(code), std::string("JPEG: ") + message, offset);
  }

  static void error_exit(j_common_ptr codec) {
    char text[JMSG_LENGTH_MAX];
    codec->err->format_message(codec, text);
    of(codec).fail(codec->err->msg_code, text);
  }
  static void emit_message(j_common_ptr codec, int level) {
    if (level < 0) ++codec->err->num_warnings;  // damage that libjpeg passes over, and Pillow with it
  }

  static void init_source(j_decompress_ptr) {}
  static boolean fill_input_buffer(j_decompress_ptr codec) {
    // libjpeg would have us make up an end marker, and paint what is missing gray.
    of(codec).run_out("ends before the picture does");
  }
  static void skip_input_data(j_decompress_ptr codec, long count) {
    State& state = of(codec);
    if (count <= 0) return;
    if (size_t(count) > state.source.bytes_in_buffer) state.run_out("ends inside a segment");
    state.source.next_input_byte += count;
    state.source.bytes_in_buffer -= size_t(count);
  }
  static void term_source(j_decompress_ptr) {}
  static void watch(j_common_ptr codec) {
    State& state = of(codec);
    if (state.codec.input_scan_number > kMaxScans) state.fail(JERR_BAD_PROGRESSION, "more than 500 scans");
  }

  // Whether libjpeg's partial decoding is known to be exact for the picture's sampling.
  bool croppable() const {
    if (codec.num_components == 1) {
      return codec.comp_info[0].h_samp_factor == 1 && codec.comp_info[0].v_samp_factor == 1;
    }
    if (codec.num_components != 3) return false;
    for (int i = 1; i < 3; ++i) {
      const jpeg_component_info& chroma = codec.comp_info[i];
      if (chroma.h_samp_factor != 1 || chroma.v_samp_factor != 1) return false;
    }
    const jpeg_component_info& luma = codec.comp_info[0];
    return luma.h_samp_factor <= 4 && luma.v_samp_factor <= 4;
  }

  void start(const Box& region);
};

LibjpegReader::LibjpegReader() : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.codec.err = jpeg_std_error(&s.errors);
  s.errors.error_exit = State::error_exit;
  s.errors.emit_message = State::emit_message;
  s.source.init_source = State::init_source;
  s.source.fill_input_buffer = State::fill_input_buffer;
  s.source.skip_input_data = State::skip_input_data;
  s.source.resync_to_restart = jpeg_resync_to_restart;
  s.source.term_source = State::term_source;
  s.progress.progress_monitor = State::watch;
}

LibjpegReader::~LibjpegReader() { jpeg_destroy_decompress(&state_->codec); }

// Runs between setjmp and longjmp: nothing in it may need a destructor.
void LibjpegReader::State::start(const Box& region) {
  // Afresh each time: a decoder that is reused lends one picture's tables to the next that lacks its own.
  jpeg_destroy_decompress(&codec);
  codec.client_data = this;
  jpeg_create_decompress(&codec);
  codec.src = &source;
  jpeg_read_header(&codec, TRUE);
  inks = codec.num_components == 4;
  codec.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  codec.dct_method = JDCT_ISLOW;
  codec.do_fancy_upsampling = TRUE;
  codec.progress = jpeg_has_multiple_scans(&codec) ? &progress : nullptr;
  jpeg_start_decompress(&codec);

  int width = int(codec.output_width);
  top = region.top;
  bottom = region.top + region.height;
  lead = size_t(region.left);
  if (croppable()) {
    if (region.width < width) {
      constexpr int kMargin = 2;  // smooth upsampling looks at neighbours; one is needed, see docs/parity
      JDIMENSION first = JDIMENSION(region.left > kMargin ? region.left - kMargin : 0);
      int last = region.left + region.width + kMargin;
      JDIMENSION columns = JDIMENSION(last < width ? last : width) - first;
      jpeg_crop_scanline(&codec, &first, &columns);
      lead = size_t(region.left) - first;
    }
    // Skipping to the start of a row of coded units is right in every version of libjpeg-turbo.
    int unit = codec.max_v_samp_factor * DCTSIZE;
    int skip = region.top / unit * unit;
    if (skip > 0) jpeg_skip_scanlines(&codec, JDIMENSION(skip));
  }
  lead *= inks ? 4 : 3;
}

Status LibjpegReader::open(ByteView data, const Box& region) {
  State& s = *state_;
  s.data = data;
  s.source.next_input_byte = data.data();
  s.source.bytes_in_buffer = data.size();
  s.codec.err->num_warnings = 0;
  if (setjmp(s.escape) != 0) return s.error();
  s.start(region);
  if (region.left + region.width > int(s.codec.image_width) || s.bottom > int(s.codec.image_height)) {
    close();
    return invalid("region outside of the picture");
  }
  return ok();
}

size_t LibjpegReader::row_bytes() const {
  return size_t(state_->codec.output_width) * size_t(state_->codec.output_components);
}

size_t LibjpegReader::lead_bytes() const { return state_->inks ? state_->lead / 4 * 3 : state_->lead; }

Result<int> LibjpegReader::read(uint8_t* const* rows, int count) {
  State& s = *state_;
  if (setjmp(s.escape) != 0) return s.error();
  auto* out = const_cast<JSAMPARRAY>(rows);
  // How many rows one call gives is libjpeg's choice, so rows above the region are told by its own counter.
  while (int(s.codec.output_scanline) < s.top) {
    if (jpeg_read_scanlines(&s.codec, out, 1) == 0) s.run_out("ends before its last row");
  }
  int done = 0;
  while (done < count && int(s.codec.output_scanline) < s.bottom) {
    int left = s.bottom - int(s.codec.output_scanline);
    int wanted = count - done < left ? count - done : left;
    int got = int(jpeg_read_scanlines(&s.codec, out + done, JDIMENSION(wanted)));
    if (got == 0) s.run_out("ends before its last row");
    if (s.inks) {
      for (int i = done; i < done + got; ++i) inks_to_rgb(rows[i], s.codec.output_width);
    }
    done += got;
  }
  return done;
}

Result<int> LibjpegReader::finish(uint8_t* scratch_row) {
  State& s = *state_;
  if (setjmp(s.escape) != 0) return s.error();
  bool all_read = s.codec.output_scanline >= s.codec.output_height || jpeg_has_multiple_scans(&s.codec);
  if (!all_read && !jpeg_has_end(s.data)) {
    // Rare: no end marker. Only decoding the rest tells whether rows are missing, too.
    while (s.codec.output_scanline < s.codec.output_height) {
      if (jpeg_read_scanlines(&s.codec, &scratch_row, 1) == 0) s.run_out("ends before its last row");
    }
  }
  int warnings = int(s.codec.err->num_warnings);
  jpeg_abort_decompress(&s.codec);
  return warnings;
}

void LibjpegReader::close() { jpeg_abort_decompress(&state_->codec); }

bool jpeg_has_end(ByteView data) {
  size_t size = data.size();
  if (size >= 2 && data[size - 2] == 0xFF && data[size - 1] == JPEG_EOI) return true;
  size_t at = 2;
  while (at + 1 < size) {
    const void* mark = std::memchr(&data[at], 0xFF, size - 1 - at);
    if (mark == nullptr) return false;
    at = size_t(static_cast<const uint8_t*>(mark) - data.data()) + 1;
    int marker = data[at];
    if (marker == 0xFF) continue;  // fill byte
    ++at;
    if (marker == JPEG_EOI) return true;
    bool bare = marker == 0 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    if (bare) continue;
    if (size - at < 2) return false;
    size_t length = size_t(data[at]) << 8 | data[at + 1];
    if (length > size - at) return false;
    at += length;
  }
  return false;
}

}  // namespace stoker::image
