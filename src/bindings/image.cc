// SPDX-License-Identifier: Apache-2.0
// Pixels for Python: thin functions that stoker.data.image documents. Work is done without the GIL in a
// workspace that each thread keeps.
#include "image/image.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <tuple>
#include <vector>

#include "bindings/errors.h"
#include "feed/pillow.h"
#include "image/border.h"

namespace nb = nanobind;
namespace image = stoker::image;
using nb::literals::operator""_a;
using stoker::bindings::check_or_raise;
using stoker::bindings::value_or_raise;

namespace {

using Pixels = nb::ndarray<const uint8_t, nb::shape<-1, -1, 3>, nb::device::cpu>;
using BoxTuple = std::tuple<int, int, int, int>;  // left, top, width, height
using Pair = std::pair<int, int>;                 // width, height

constexpr size_t kKeptPerThread = 64 << 20;

// A picture of a gigabyte should not stay in every thread that ever saw one.
class Borrowed {
 public:
  Borrowed() : workspace_(of_thread()) {}
  ~Borrowed() { workspace_.trim(kKeptPerThread); }
  operator image::Workspace&() { return workspace_; }
  image::Workspace* operator->() { return &workspace_; }

 private:
  static image::Workspace& of_thread() {
    thread_local image::Workspace workspace;
    return workspace;
  }
  image::Workspace& workspace_;
};

stoker::ByteView bytes_of(const nb::bytes& data) {
  return {static_cast<const uint8_t*>(data.data()), data.size()};
}

template <typename T>
struct NewArray {
  explicit NewArray(size_t count) : data(new T[count]) {}
  nb::object numpy(std::initializer_list<size_t> shape) {
    T* raw = data.release();
    nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(raw, shape, owner));
  }
  std::unique_ptr<T[]> data;
};

image::ImageView view_of(const Pixels& pixels) {
  if (pixels.stride(2) != 1 || pixels.stride(1) != 3)
    throw nb::value_error("pixels must be contiguous within a row");
  if (pixels.shape(0) == 0 || pixels.shape(1) == 0) throw nb::value_error("an empty picture");
  return {pixels.data(), int(pixels.shape(1)), int(pixels.shape(0)), pixels.stride(0)};
}

std::tuple<std::string, int, int> read_header(const nb::bytes& data) {
  image::Header header = value_or_raise(image::read_header(bytes_of(data)));
  const char* name = header.format == image::Format::kJpeg  ? "JPEG"
                     : header.format == image::Format::kPng ? "PNG"
                                                            : "WEBP";  // as Pillow writes them
  return {name, header.width, header.height};
}

image::Gray16 gray16_of(bool scale) { return scale ? image::Gray16::kScale : image::Gray16::kClip; }

std::pair<nb::object, bool> decode_other(const nb::bytes& data, const stoker::Error& refused,
                                         const stoker::feed::Pillow& others, image::Gray16 gray16) {
  std::vector<uint8_t> pixels;
  auto picture = [&] {
    nb::gil_scoped_release unlocked;
    return others.decode(bytes_of(data), refused, gray16, pixels);
  }();
  stoker::pipeline::OtherPicture made = value_or_raise(std::move(picture));
  image::Size size = made.pixels.size();
  NewArray<uint8_t> out(size_t(size.width) * size_t(size.height) * 3);
  image::crop(made.pixels, {0, 0, size.width, size.height}, image::packed(out.data.get(), size));
  return {out.numpy({size_t(size.height), size_t(size.width), 3}), made.gray16_clipped};
}

// (pixels, 16-bit gray was clipped)
std::pair<nb::object, bool> decode(const nb::bytes& data, const stoker::feed::Pillow* others,
                                   bool scale_gray16) {
  auto known = image::read_header(bytes_of(data));
  if (!known.ok() && others != nullptr && stoker::pipeline::may_be_other_format(known.error()))
    return decode_other(data, known.error(), *others, gray16_of(scale_gray16));
  image::Header header = value_or_raise(std::move(known));
  size_t height = size_t(header.height);
  size_t width = size_t(header.width);
  NewArray<uint8_t> out(height * width * 3);
  stoker::Status status = stoker::ok();
  bool clipped = false;
  {
    nb::gil_scoped_release unlocked;
    Borrowed workspace;
    status = image::decode_rgb_into(bytes_of(data), image::packed(out.data.get(), header.size()), workspace,
                                    gray16_of(scale_gray16));
    clipped = workspace->notes().gray16_clipped;
  }
  check_or_raise(status);
  return {out.numpy({height, width, 3}), clipped};
}

// The class numbers of a mask: uint16 [H, W].
nb::object decode_numbers(const nb::bytes& data) {
  image::Header header = value_or_raise(image::read_header(bytes_of(data)));
  size_t pixels = size_t(header.height) * size_t(header.width);
  NewArray<uint16_t> out(pixels);
  stoker::Status status = stoker::ok();
  {
    nb::gil_scoped_release unlocked;
    Borrowed workspace;
    NewArray<uint8_t> packed(3 * pixels);
    const uint8_t* in = packed.data.get();
    status = image::decode_numbers_into(bytes_of(data), image::packed(packed.data.get(), header.size()),
                                        workspace);
    for (size_t i = 0; status.ok() && i < pixels; ++i, in += 3)
      out.data[i] = static_cast<uint16_t>(in[0] | in[1] << 8);
  }
  check_or_raise(status);
  return out.numpy({size_t(header.height), size_t(header.width)});
}

nb::object decode_region(const nb::bytes& data, const BoxTuple& box, bool scale_gray16) {
  auto [left, top, width, height] = box;
  if (width <= 0 || height <= 0) throw nb::value_error("an empty region");
  image::Header header = value_or_raise(image::read_header(bytes_of(data)));
  if (!image::inside({left, top, width, height}, header.size()))
    throw nb::value_error("region outside of the picture");
  NewArray<uint8_t> out(size_t(width) * size_t(height) * 3);
  stoker::Status status = stoker::ok();
  {
    nb::gil_scoped_release unlocked;
    Borrowed workspace;
    auto region =
        image::decode_region(bytes_of(data), {left, top, width, height}, workspace, gray16_of(scale_gray16));
    if (region.ok()) {
      image::crop(*region, {0, 0, width, height}, image::packed(out.data.get(), region->size()));
    } else {
      status = region.error();
    }
  }
  check_or_raise(status);
  return out.numpy({size_t(height), size_t(width), 3});
}

nb::object resize(const Pixels& pixels, const Pair& size, int pillow_major) {
  image::ImageView in = view_of(pixels);
  image::Size to{size.first, size.second};
  if (to.width <= 0 || to.height <= 0) throw nb::value_error("resize to nothing");
  NewArray<uint8_t> out(size_t(to.width) * size_t(to.height) * 3);
  stoker::Status status = stoker::ok();
  {
    nb::gil_scoped_release unlocked;
    Borrowed workspace;
    status =
        image::resize(in, image::packed(out.data.get(), to), image::pass_order_of(pillow_major), workspace);
  }
  check_or_raise(status);
  return out.numpy({size_t(to.height), size_t(to.width), 3});
}

image::ResizedCrop crop_params(const BoxTuple& crop, const Pair& size, const std::optional<BoxTuple>& window,
                               bool flip, int pillow_major) {
  auto box = [](const BoxTuple& t) {
    return image::Box{std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t)};
  };
  image::ResizedCrop params{.crop = box(crop), .size = {size.first, size.second}, .flip = flip};
  params.order = image::pass_order_of(pillow_major);
  if (window) params.window = box(*window);
  image::Box written = params.written();
  if (!image::inside(written, params.size)) throw nb::value_error("window outside of the resized picture");
  return params;
}

// layout: "hwc" and "chw" give uint8; a table gives float32 in CHW.
nb::object decode_resized_crop(const nb::bytes& data, const BoxTuple& crop, const Pair& size,
                               const std::optional<BoxTuple>& window, bool flip,
                               const image::NormalizeTable* table, const std::string& layout,
                               int pillow_major, bool scale_gray16) {
  image::ResizedCrop params = crop_params(crop, size, window, flip, pillow_major);
  image::StoredPicture stored(bytes_of(data));
  stored.gray16 = gray16_of(scale_gray16);
  size_t width = size_t(params.written().width);
  size_t height = size_t(params.written().height);
  auto run = [&](const image::PixelOutput& output) {
    stoker::Status status = stoker::ok();
    {
      nb::gil_scoped_release unlocked;
      Borrowed workspace;
      status = image::decode_resized_crop(stored, params, output, workspace);
    }
    check_or_raise(status);
  };
  if (table != nullptr) {
    NewArray<float> out(3 * width * height);
    run(image::ChwFloats{out.data.get(), table});
    return out.numpy({3, height, width});
  }
  NewArray<uint8_t> out(3 * width * height);
  if (layout == "chw") {
    run(image::ChwBytes{out.data.get()});
    return out.numpy({3, height, width});
  }
  run(image::HwcBytes{out.data.get()});
  return out.numpy({height, width, 3});
}

nb::object to_float_chw(const Pixels& pixels, const image::NormalizeTable& table, bool flip) {
  image::ImageView in = view_of(pixels);
  NewArray<float> out(3 * pixels.shape(0) * pixels.shape(1));
  {
    nb::gil_scoped_release unlocked;
    image::to_float_chw(in, table, flip, out.data.get());
  }
  return out.numpy({3, pixels.shape(0), pixels.shape(1)});
}

}  // namespace

void bind_image(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("image");
  nb::enum_<image::ToFloat>(module, "ToFloat")
      .value("MULTIPLY", image::ToFloat::kMultiply)
      .value("DIVIDE", image::ToFloat::kDivide)
      .value("UNSCALED", image::ToFloat::kUnscaled);
  nb::class_<image::NormalizeTable>(module, "NormalizeTable")
      .def(
          "__init__",
          [](image::NormalizeTable* self, image::ToFloat to_float, std::optional<std::array<double, 3>> mean,
             std::optional<std::array<double, 3>> std) {
            std::optional<image::MeanStd> normalize;
            if (mean && std) normalize = image::MeanStd{*mean, *std};
            new (self) image::NormalizeTable(to_float, normalize);
          },
          "to_float"_a, "mean"_a = nb::none(), "std"_a = nb::none());
  module.def("read_header", read_header, "data"_a);
  module.def("decode", decode, "data"_a, "others"_a.none() = nb::none(), "scale_gray16"_a = false);
  module.def("decode_numbers", decode_numbers, "data"_a);
  module.def("decode_region", decode_region, "data"_a, "box"_a, "scale_gray16"_a = false);
  module.def("resize", resize, "pixels"_a, "size"_a, "pillow_major"_a);
  module.def("decode_resized_crop", decode_resized_crop, "data"_a, "crop"_a, "size"_a, "window"_a, "flip"_a,
             "table"_a.none(), "layout"_a, "pillow_major"_a, "scale_gray16"_a = false);
  module.def("to_float_chw", to_float_chw, "pixels"_a, "table"_a, "flip"_a);
}
