// SPDX-License-Identifier: Apache-2.0
#include "pipeline/native_producer.h"

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/array_producer.h"
#include "pipeline/decide.h"
#include "pipeline/stage.h"

namespace stoker::pipeline {

struct Scratch::Buffers {
  std::vector<uint8_t> file;
  std::vector<uint8_t> pictures[2];
  image::Workspace workspace;
  Actions actions;
};

Scratch::Scratch() : buffers_(std::make_unique<Buffers>()) {}
Scratch::~Scratch() = default;
Scratch::Scratch(Scratch&&) noexcept = default;

namespace {

constexpr size_t kKeepBytes = 64 << 20;  // a scratch that one huge picture blew up shrinks again

image::PassOrder pass_order(const Plan& plan) {
  return image::pass_order_of(plan.libraries()["pillow"].as_string() == "12" ? 12 : 13);
}

// The normalize that stands right behind to_float and so becomes part of its table.
const Normalize* folded_normalize(const Ops& ops) {
  for (size_t i = 1; i < ops.size(); ++i)
    if (std::holds_alternative<ToFloat>(ops[i - 1])) return std::get_if<Normalize>(&ops[i]);
  return nullptr;
}

std::unique_ptr<const image::NormalizeTable> make_table(const NativePlan& plan) {
  if (!plan.float_output) return nullptr;
  auto rule = image::ToFloat::kUnscaled;
  for (const Op& op : plan.ops) {
    if (auto to_float = std::get_if<ToFloat>(&op)) {
      if (to_float->rule == ToFloat::kV1) rule = image::ToFloat::kDivide;
      if (to_float->rule == ToFloat::kV2) rule = image::ToFloat::kMultiply;
    }
  }
  std::optional<image::MeanStd> normalize;
  if (const Normalize* op = folded_normalize(plan.ops)) {
    auto of = [](const std::vector<double>& values) {
      return std::array{values.front(), values[values.size() / 2], values.back()};  // one stands for all
    };
    normalize = image::MeanStd{of(op->mean), of(op->std)};
  }
  return std::make_unique<image::NormalizeTable>(rule, normalize);
}

RowLayout make_layout(const NativePlan& plan) {
  auto known = check_ops(plan.ops);  // which make_native has done before
  CHECK(known.ok() && known->size);
  image::Size size = *known->size;
  DType dtype = plan.float_output ? DType::kFloat32 : DType::kUint8;
  uint64_t bytes = dtype_size(dtype) * static_cast<uint64_t>(known->channels) *
                   static_cast<uint64_t>(size.height) * static_cast<uint64_t>(size.width);
  return {
      {{"image", dtype, {known->channels, size.height, size.width}, bytes}, {"label", DType::kInt64, {}, 8}}};
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
      reader_(std::move(manifest), plan.native().source.root),
      layout_(make_layout(plan.native())),
      key_(seed_key(plan.seed())),
      order_(pass_order(plan)),
      table_(make_table(plan.native())),
      table_normalizes_(folded_normalize(plan.native().ops) != nullptr) {}

Result<std::unique_ptr<NativeProducer>> NativeProducer::open(const Plan& plan, Manifest manifest) {
  if (!plan.is_native()) return invalid("opening a plan: it is of Python code and needs a Python worker");
  STOKER_TRY(check_libraries(plan));
  const ImageSource& source = plan.native().source;
  if (manifest.hash() != source.manifest || manifest.items() != source.items)
    return invalid("opening a plan: the manifest " + manifest.hash() + " is not the plan's");
  return std::unique_ptr<NativeProducer>(new NativeProducer(plan, std::move(manifest)));
}

Result<std::unique_ptr<Producer>> open_native(const Plan& plan, ByteView attachment) {
  if (plan.is_arrays()) {
    STOKER_ASSIGN(std::unique_ptr<Producer> producer, ArrayProducer::open(plan, attachment));
    return producer;
  }
  if (!plan.is_native()) return invalid("opening a plan: it is of Python code and needs a Python worker");
  STOKER_ASSIGN(Manifest manifest, find_manifest(plan, attachment));
  STOKER_ASSIGN(std::unique_ptr<Producer> producer, NativeProducer::open(plan, std::move(manifest)));
  return producer;
}

// `base`: where the picture begins in its file, for offsets that count from there.
Error NativeProducer::located(Error error, SampleRef ref, uint64_t base) const {
  std::string path = reader_.path(ref.item);
  if (error.fault) {
    error.code = Code::kData;
    if (error.fault->path.empty() && error.fault->offset >= 0)
      error.fault->offset += static_cast<int64_t>(base);
    error.fault->path = path;
  }
  std::string where =
      "sample at position " + std::to_string(ref.position) + " (item " + std::to_string(ref.item) + ")";
  if (error.message.find(path) == std::string::npos) {
    where += ": " + path;
    if (error.fault && error.fault->offset >= 0) where += ", byte " + std::to_string(error.fault->offset);
  }
  return std::move(error).during(where);
}

Result<Encoded> NativeProducer::read(uint64_t item, std::vector<uint8_t>& buffer) const {
  STOKER_ASSIGN(ByteView bytes, reader_.read(item, buffer));
  const ImageSource& source = plan_.native().source;
  if (source.kind == "tfrecord")
    return encoded_of_record(bytes, reader_.path(item), reader_.offset(item), source);
  return Encoded{bytes, manifest().label(item), reader_.offset(item)};
}

Status NativeProducer::produce(SampleRef ref, std::span<uint8_t* const> leaf_rows, Scratch& scratch) const {
  CHECK(leaf_rows.size() == layout_.leaves.size());
  if (ref.item >= items()) {
    return invalid("item " + std::to_string(ref.item) + " asked for at position " +
                   std::to_string(ref.position) + ", of " + std::to_string(items()));
  }
  Scratch::Buffers& buffers = scratch.buffers();
  int64_t begun = monotonic_ns();
  auto encoded = read(ref.item, buffers.file);
  scratch.times.read_ns += static_cast<uint64_t>(monotonic_ns() - begun);
  if (!encoded) return located(std::move(encoded).error(), ref, 0);
  scratch.times.read_bytes += encoded->picture.size();

  int64_t cpu = thread_cpu_ns();
  auto transformed = transform(ref, encoded->picture, leaf_rows[0], buffers);
  scratch.times.transform_ns += static_cast<uint64_t>(thread_cpu_ns() - cpu);
  shrink(buffers.file);
  shrink(buffers.pictures[0]);
  shrink(buffers.pictures[1]);
  buffers.workspace.trim(kKeepBytes);
  if (!transformed.ok()) return located(std::move(transformed).error(), ref, encoded->offset);
  if (buffers.workspace.notes().gray16_clipped && !told_gray16_.exchange(true))
    log_line(LogLevel::kWarn, "pipeline",
             path(ref.item) +
                 ": 16-bit gray, clipped to 8 bits as Pillow does it; the source may have more of them");
  store_le(leaf_rows[1], encoded->label);
  ++scratch.times.samples;
  return ok();
}

Row NativeProducer::row_at(uint8_t* out) const {
  const std::vector<int64_t>& shape = layout_.leaves[0].shape;
  image::Size size{static_cast<int>(shape[2]), static_cast<int>(shape[1])};
  return {out, size, static_cast<int>(shape[0]), table_.get(), table_normalizes_};
}

Status NativeProducer::transform(SampleRef ref, ByteView file, uint8_t* out,
                                 Scratch::Buffers& buffers) const {
  STOKER_ASSIGN(image::Header header, image::read_header(file));
  image::Size size = header.size();
  buffers.actions.clear();
  const Ops& ops = plan_.native().ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    SampleRandom draws = draws_of(key_, ref, i);
    STOKER_TRY(decide(ops[i], draws, size, buffers.actions));
  }
  Stage stage(file, header.size(), order_, buffers.workspace, buffers.pictures);
  return apply(buffers.actions, stage, row_at(out));
}

void NativeProducer::will_need(std::span<const SampleRef> refs) const {
  for (const SampleRef& ref : refs)
    if (ref.item < items()) reader_.will_need(ref.item);
}

Result<Json> sample_parameters(const Plan& plan, SampleRef ref, image::Size picture) {
  if (!plan.is_native()) return invalid("only native plans have parameters");
  uint64_t key = seed_key(plan.seed());
  Json::Array out;
  const Ops& ops = plan.native().ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    SampleRandom draws = draws_of(key, ref, i);
    Actions actions;
    STOKER_TRY(decide(ops[i], draws, picture, actions));
    Json did{Json::Array{}};
    for (const Action& action : actions) did.push(to_json(action));
    out.push_back(Json().set("op", op_name(ops[i])).set("did", std::move(did)));
  }
  return Json(std::move(out));
}

}  // namespace stoker::pipeline
