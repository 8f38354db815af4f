// SPDX-License-Identifier: Apache-2.0
#include "image/png_reader.h"

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

#include "image/fault.h"

namespace stoker::image {
namespace {

// What libpng's callbacks see. Trivial: longjmp passes over it.
struct Input {
  ByteView data;
  size_t at = 0;
  bool ended = false;
  char message[160] = {};
};

void read_bytes(png_structp png, png_bytep out, size_t count) {
  auto* input = static_cast<Input*>(png_get_io_ptr(png));
  if (count > input->data.size() - input->at) {
    input->ended = true;
    png_error(png, "ends before the picture does");
  }
  std::memcpy(out, input->data.data() + input->at, count);
  input->at += count;
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* input = static_cast<Input*>(png_get_error_ptr(png));
  std::snprintf(input->message, sizeof input->message, "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

const char* kind_of(const Input& input) {
  std::string_view message = input.message;
  if (input.ended || message.find("Not enough image data") != message.npos) return "truncated";
  if (message.find("emory") != message.npos) return "too_large";
  return "corrupt";
}

struct Handle {
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~Handle() { png_destroy_read_struct(&png, &info, nullptr); }
  // Of `input`, which must outlive it. False without memory.
  bool open(Input& input) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, on_error, on_warning);
    info = png != nullptr ? png_create_info_struct(png) : nullptr;
    if (info == nullptr) return false;
    png_set_read_fn(png, &input, read_bytes);
    return true;
  }
};

// Runs between setjmp and longjmp, as the next two: nothing in them may need a destructor.
void read_info(png_structp png, png_infop info) {
  png_set_benign_errors(png, 1);
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_QUIET_USE);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, reinterpret_cast<png_const_bytep>("tRNS"), 1);
  png_set_check_for_invalid_index(png, -1);
  png_read_info(png, info);
}

// `*wide`: rows come as 16-bit gray, to be clipped.
void start(png_structp png, png_infop info, Gray16 gray16, bool* wide) {
  read_info(png, info);
  int colour = png_get_color_type(png, info);
  *wide = gray16 == Gray16::kClip && colour == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) == 16;
  if (*wide) {
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    return;
  }
  if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (!(colour & PNG_COLOR_MASK_COLOR)) {
    if (png_get_bit_depth(png, info) < 8) png_set_expand_gray_1_2_4_to_8(png);
    png_set_gray_to_rgb(png);
  }
  if (png_get_bit_depth(png, info) == 16) png_set_strip_16(png);
  if (colour & PNG_COLOR_MASK_ALPHA) png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

// False if the pixels are no single numbers.
bool start_numbers(png_structp png, png_infop info, bool* wide) {
  read_info(png, info);
  int colour = png_get_color_type(png, info);
  if (colour != PNG_COLOR_TYPE_PALETTE && colour != PNG_COLOR_TYPE_GRAY) return false;
  int depth = png_get_bit_depth(png, info);
  *wide = depth == 16;
  if (colour == PNG_COLOR_TYPE_GRAY && (depth == 2 || depth == 4)) {
    png_set_expand_gray_1_2_4_to_8(png);  // as Pillow does; of one bit and in palettes it keeps the number
  } else if (depth < 8) {
    png_set_packing(png);
  }
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

// A plain PNG comes row by row; an interlaced one passes over the whole picture seven times.
void read_rows(png_structp png, bool interlaced, int rows, int height, uint8_t* first, ptrdiff_t stride) {
  int passes = interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1;
  int last = interlaced ? height : rows;
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < last; ++y) png_read_row(png, y < rows ? first + y * stride : nullptr, nullptr);
  }
}

// Pillow's conversion of 16-bit gray: what does not fit a byte is white.
void clip_gray16(const uint8_t* in, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x, in += 2, out += 3) std::memset(out, in[0] != 0 ? 255 : in[1], 3);
}

}  // namespace

Result<PngResult> read_png(ByteView data, int rows, const MutableImageView& out, Gray16 gray16,
                           Buffer& scratch) {
  Input input{data};
  Handle handle;
  if (!handle.open(input)) return no_memory(0);

  PngResult result;
  uint8_t* gray = nullptr;
  ptrdiff_t gray_stride = 2 * ptrdiff_t{out.width};
  if (setjmp(png_jmpbuf(handle.png)) != 0) {
    return fault(kind_of(input), std::string("PNG: ") + input.message, int64_t(input.at));
  }
  start(handle.png, handle.info, gray16, &result.gray16_clipped);
  if (int(png_get_image_width(handle.png, handle.info)) != out.width) png_error(handle.png, "width changed");
  int height = int(png_get_image_height(handle.png, handle.info));
  bool interlaced = png_get_interlace_type(handle.png, handle.info) != PNG_INTERLACE_NONE;
  size_t row_bytes = png_get_rowbytes(handle.png, handle.info);
  if (row_bytes != size_t(result.gray16_clipped ? gray_stride : 3 * ptrdiff_t{out.width})) {
    png_error(handle.png, "row of unexpected length");
  }
  if (!result.gray16_clipped) {
    read_rows(handle.png, interlaced, rows, height, out.data, out.stride);
    return result;
  }
  gray = scratch.grow(size_t(gray_stride) * size_t(rows));
  if (gray == nullptr) return no_memory(size_t(gray_stride) * size_t(rows));
  read_rows(handle.png, interlaced, rows, height, gray, gray_stride);
  for (int y = 0; y < rows; ++y) clip_gray16(gray + y * gray_stride, out.width, out.row(y));
  return result;
}

Status read_png_numbers(ByteView data, const MutableImageView& out, Buffer& scratch) {
  Input input{data};
  Handle handle;
  if (!handle.open(input)) return no_memory(0);

  bool wide = false;
  uint8_t* numbers = nullptr;
  if (setjmp(png_jmpbuf(handle.png)) != 0) {
    return fault(kind_of(input), std::string("PNG: ") + input.message, int64_t(input.at));
  }
  if (!start_numbers(handle.png, handle.info, &wide))
    return fault("unsupported", "PNG: a mask has one number a pixel (a palette or gray), not colours", -1);
  bool interlaced = png_get_interlace_type(handle.png, handle.info) != PNG_INTERLACE_NONE;
  ptrdiff_t stride = (wide ? 2 : 1) * ptrdiff_t{out.width};
  if (png_get_rowbytes(handle.png, handle.info) != size_t(stride) ||
      int(png_get_image_height(handle.png, handle.info)) != out.height) {
    png_error(handle.png, "row of unexpected length");
  }
  numbers = scratch.grow(size_t(stride) * size_t(out.height));
  if (numbers == nullptr) return no_memory(size_t(stride) * size_t(out.height));
  read_rows(handle.png, interlaced, out.height, out.height, numbers, stride);
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* in = numbers + y * stride;
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x, to += 3) {
      to[0] = wide ? in[2 * x + 1] : in[x];
      to[1] = wide ? in[2 * x] : uint8_t{0};
      to[2] = 0;
    }
  }
  return ok();
}

}  // namespace stoker::image
