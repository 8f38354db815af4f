// SPDX-License-Identifier: Apache-2.0
#include "pipeline/native_producer.h"

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/file_reader.h"
#include "pipeline/geometry.h"
#include "pipeline/stage.h"

namespace stoker::pipeline {

struct Scratch::Buffers {
  std::vector<uint8_t> file;
  std::vector<uint8_t> pictures[2];
  image::Workspace workspace;
};

Scratch::Scratch() : buffers_(std::make_unique<Buffers>()) {}
Scratch::~Scratch() = default;
Scratch::Scratch(Scratch&&) noexcept = default;

namespace {

constexpr size_t kKeepBytes = 64 << 20;  // a scratch that one huge picture blew up shrinks again

image::PassOrder pass_order(const Plan& plan) {
  return image::pass_order_of(plan.libraries()["pillow"].as_string() == "12" ? 12 : 13);
}

std::unique_ptr<const image::NormalizeTable> make_table(const NativePlan& plan) {
  if (!plan.float_output) return nullptr;
  auto rule = image::ToFloat::kUnscaled;
  std::optional<image::MeanStd> normalize;
  for (const Op& op : plan.ops) {
    if (auto to_float = std::get_if<ToFloat>(&op)) {
      if (to_float->rule == ToFloat::kV1) rule = image::ToFloat::kDivide;
      if (to_float->rule == ToFloat::kV2) rule = image::ToFloat::kMultiply;
    }
    if (auto op_normalize = std::get_if<Normalize>(&op)) {
      const auto& [mean, std] = *op_normalize;
      normalize = image::MeanStd{{mean[0], mean[1], mean[2]}, {std[0], std[1], std[2]}};
    }
  }
  return std::make_unique<image::NormalizeTable>(rule, normalize);
}

// plan.cc has made sure that the ops fix the size, whatever the picture.
RowLayout make_layout(const NativePlan& plan) {
  image::Size size{1, 1};
  for (const Op& op : plan.ops) {
    auto after = size_after(op, size);
    if (after) size = *after;
  }
  DType dtype = plan.float_output ? DType::kFloat32 : DType::kUint8;
  uint64_t bytes =
      dtype_size(dtype) * 3 * static_cast<uint64_t>(size.height) * static_cast<uint64_t>(size.width);
  return {{{"image", dtype, {3, size.height, size.width}, bytes}, {"label", DType::kInt64, {}, 8}}};
}

SampleRandom draws_of(uint64_t key, SampleRef ref, size_t op) {
  return SampleRandom(key, ref.position, static_cast<uint32_t>(op));
}

void shrink(std::vector<uint8_t>& buffer) {
  if (buffer.capacity() > kKeepBytes) std::vector<uint8_t>().swap(buffer);
}

}  // namespace

NativeProducer::NativeProducer(const Plan& plan, Manifest manifest)
    : plan_(plan),
      manifest_(std::move(manifest)),
      layout_(make_layout(plan.native())),
      key_(seed_key(plan.seed())),
      order_(pass_order(plan)),
      table_(make_table(plan.native())) {}

Result<std::unique_ptr<NativeProducer>> NativeProducer::open(const Plan& plan, Manifest manifest) {
  if (!plan.is_native()) return invalid("opening a plan: it is of Python code and needs a Python worker");
  STOKER_TRY(check_libraries(plan));
  const ImageSource& source = plan.native().source;
  if (manifest.hash() != source.manifest || manifest.items() != source.items)
    return invalid("opening a plan: the manifest " + manifest.hash() + " is not the plan's");
  return std::unique_ptr<NativeProducer>(new NativeProducer(plan, std::move(manifest)));
}

Result<std::unique_ptr<Producer>> open_native(const Plan& plan, ByteView attachment) {
  if (!plan.is_native()) return invalid("opening a plan: it is of Python code and needs a Python worker");
  STOKER_ASSIGN(Manifest manifest, find_manifest(plan, attachment));
  STOKER_ASSIGN(std::unique_ptr<Producer> producer, NativeProducer::open(plan, std::move(manifest)));
  return producer;
}

std::string NativeProducer::path(uint64_t item) const {
  std::string_view name = manifest_.path(item);
  if (name[0] == '/') return std::string(name);
  const std::string& root = plan_.native().source.root;
  std::string out;
  out.reserve(root.size() + 1 + name.size());
  return out.append(root).append("/").append(name);
}

Error NativeProducer::located(Error error, SampleRef ref, const std::string& path) const {
  if (error.fault) {
    error.code = Code::kData;
    error.fault->path = path;
  }
  std::string where =
      "sample at position " + std::to_string(ref.position) + " (item " + std::to_string(ref.item) + ")";
  if (error.message.find(path) == std::string::npos) where += ": " + path;
  if (error.fault && error.fault->offset >= 0) where += ", byte " + std::to_string(error.fault->offset);
  return std::move(error).during(where);
}

Status NativeProducer::produce(SampleRef ref, std::span<uint8_t* const> leaf_rows, Scratch& scratch) const {
  CHECK(leaf_rows.size() == layout_.leaves.size());
  if (ref.item >= items()) {
    return invalid("item " + std::to_string(ref.item) + " asked for at position " +
                   std::to_string(ref.position) + ", of " + std::to_string(items()));
  }
  Scratch::Buffers& buffers = scratch.buffers();
  std::string from = path(ref.item);
  int64_t begun = monotonic_ns();
  auto file = read_sample_file(from, buffers.file);
  scratch.times.read_ns += static_cast<uint64_t>(monotonic_ns() - begun);
  if (!file) return located(std::move(file).error(), ref, from);
  scratch.times.read_bytes += file->size();

  int64_t cpu = thread_cpu_ns();
  auto transformed = transform(ref, *file, leaf_rows[0], buffers);
  scratch.times.transform_ns += static_cast<uint64_t>(thread_cpu_ns() - cpu);
  shrink(buffers.file);
  shrink(buffers.pictures[0]);
  shrink(buffers.pictures[1]);
  buffers.workspace.trim(kKeepBytes);
  if (!transformed.ok()) return located(std::move(transformed).error(), ref, from);
  if (buffers.workspace.notes().gray16_clipped && !told_gray16_.exchange(true))
    log_line(LogLevel::kWarn, "pipeline",
             from + ": 16-bit gray, clipped to 8 bits as Pillow does it; the source may have more of them");
  store_le(leaf_rows[1], manifest_.label(ref.item));
  ++scratch.times.samples;
  return ok();
}

Status NativeProducer::transform(SampleRef ref, ByteView file, uint8_t* out,
                                 Scratch::Buffers& buffers) const {
  STOKER_ASSIGN(image::Header header, image::read_header(file));
  Stage stage(file, header.size(), order_, buffers.workspace, buffers.pictures);
  const std::vector<Op>& ops = plan_.native().ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (auto crop = std::get_if<RandomResizedCrop>(&ops[i])) {
      STOKER_TRY(stage.crop(random_resized_crop_box(*crop, stage.size(), draws_of(key_, ref, i))));
      STOKER_TRY(stage.resize({static_cast<int>(crop->width), static_cast<int>(crop->height)}));
    } else if (auto resize = std::get_if<Resize>(&ops[i])) {
      STOKER_ASSIGN(image::Size size, resized(*resize, stage.size()));
      STOKER_TRY(stage.resize(size));
    } else if (auto crop = std::get_if<CenterCrop>(&ops[i])) {
      image::Size size{static_cast<int>(crop->width), static_cast<int>(crop->height)};
      STOKER_TRY(stage.crop(image::center_crop_box(stage.size(), size)));
    } else if (auto flip = std::get_if<HorizontalFlip>(&ops[i])) {
      if (flips(*flip, draws_of(key_, ref, i))) stage.flip();
    }
  }
  if (table_) return stage.write(image::ChwFloats{reinterpret_cast<float*>(out), table_.get()});
  return stage.write(image::ChwBytes{out});
}

void NativeProducer::will_need(std::span<const SampleRef> refs) const {
  for (const SampleRef& ref : refs)
    if (ref.item < items()) will_read_sample_file(path(ref.item));
}

Result<Json> sample_parameters(const Plan& plan, SampleRef ref, image::Size picture) {
  if (!plan.is_native()) return invalid("only native plans have parameters");
  uint64_t key = seed_key(plan.seed());
  Json::Array out;
  const std::vector<Op>& ops = plan.native().ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    Json one;
    one.set("op", op_name(ops[i]));
    auto set_box = [&](const image::Box& box) {
      one.set("top", box.top).set("left", box.left).set("height", box.height).set("width", box.width);
    };
    STOKER_ASSIGN(image::Size size, size_after(ops[i], picture));
    if (auto crop = std::get_if<RandomResizedCrop>(&ops[i]))
      set_box(random_resized_crop_box(*crop, picture, draws_of(key, ref, i)));
    if (std::get_if<CenterCrop>(&ops[i])) set_box(image::center_crop_box(picture, size));
    if (std::get_if<Resize>(&ops[i])) one.set("height", size.height).set("width", size.width);
    if (auto flip = std::get_if<HorizontalFlip>(&ops[i]))
      one.set("flip", flips(*flip, draws_of(key, ref, i)));
    out.push_back(std::move(one));
    picture = size;
  }
  return Json(std::move(out));
}

}  // namespace stoker::pipeline
