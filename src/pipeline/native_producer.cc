// SPDX-License-Identifier: Apache-2.0
#include "pipeline/native_producer.h"

#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/array_producer.h"
#include "pipeline/decide.h"

namespace stoker::pipeline {

namespace {
constexpr uint32_t kSubstituteOp = 0xffffffff;  // no op of a plan: draws of its own
constexpr int kSubstitutes = 64;
constexpr int kToldDamage = 10;
}  // namespace

NativeProducer::NativeProducer(const Plan& plan, const Known& after, Manifest manifest,
                               std::shared_ptr<const OtherFormats> others)
    : plan_(plan),
      reader_(std::move(manifest), plan.native().source.root),
      transform_(plan.native().ops, after, plan),
      others_(std::move(others)),
      layout_{{transform_.leaf("image"), plan.native().source.has_masks()
                                             ? transform_.mask_leaf(plan.native().source.mask)
                                             : Leaf{"label", DType::kInt64, {}, 8}}} {
  if (plan.native().on_error == OnError::kSkip) layout_.leaves.push_back({"valid", DType::kBool, {}, 1});
}

Result<std::unique_ptr<NativeProducer>> NativeProducer::open(const Plan& plan, Manifest manifest,
                                                             const PictureCacheOptions& cache,
                                                             std::shared_ptr<const OtherFormats> others) {
  if (!plan.is_native()) return invalid("opening a plan: it is of Python code and needs a Python worker");
  STOKER_TRY(check_libraries(plan));
  const ImageSource& source = plan.native().source;
  if (manifest.hash() != source.manifest || manifest.items() != source.manifest_items())
    return invalid("opening a plan: the manifest " + manifest.hash() + " is not the plan's");
  STOKER_ASSIGN(Known after, check_ops(plan.native().ops));
  std::unique_ptr<NativeProducer> producer(
      new NativeProducer(plan, after, std::move(manifest), std::move(others)));
  if (!cache.kind.empty()) producer->open_cache(cache);
  return producer;
}

// Samples are the same without it.
void NativeProducer::open_cache(const PictureCacheOptions& options) {
  auto cache = PictureCache::open(options, plan_);
  if (cache) {
    cache_ = std::move(*cache);
  } else {
    log_line(LogLevel::kWarn, "pipeline", "no picture cache: " + cache.error().message);
  }
}

Result<std::unique_ptr<Producer>> open_native(const Plan& plan, ByteView attachment,
                                              const PictureCacheOptions& cache,
                                              std::shared_ptr<const OtherFormats> others) {
  if (plan.is_arrays()) {
    STOKER_ASSIGN(std::unique_ptr<Producer> producer, ArrayProducer::open(plan, attachment));
    return producer;
  }
  if (!plan.is_native()) return invalid("opening a plan: it is of Python code and needs a Python worker");
  STOKER_ASSIGN(Manifest manifest, find_manifest(plan, attachment));
  STOKER_ASSIGN(std::unique_ptr<Producer> producer,
                NativeProducer::open(plan, std::move(manifest), cache, std::move(others)));
  return producer;
}

Result<std::unique_ptr<Producer>> open_native(const Plan& plan, ByteView attachment) {
  return open_native(plan, attachment, {});
}

// `base`: where the picture begins in its file, for offsets that count from there.
Error NativeProducer::located(Error error, SampleRef ref, uint64_t stored, uint64_t base) const {
  std::string path = reader_.path(stored);
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
  Status made = produce_item(ref, leaf_rows, scratch);
  if (made.ok()) {
    if (plan_.native().on_error == OnError::kSkip) leaf_rows[2][0] = 1;
    return made;
  }
  // What could not be read is somebody else's to read, and never skipped.
  if (plan_.native().on_error == OnError::kRaise || made.error().code != Code::kData) return made;
  return replace(ref, leaf_rows, scratch, made.error());
}

// A row in the place of one whose item is damaged.
Status NativeProducer::replace(SampleRef ref, std::span<uint8_t* const> leaf_rows, Scratch& scratch,
                               Error damage) const {
  tell_of(damage);
  if (plan_.native().on_error == OnError::kSkip) {
    for (size_t k = 0; k < leaf_rows.size(); ++k) std::memset(leaf_rows[k], 0, layout_.leaves[k].row_bytes);
    ++scratch.times.samples;
    ++scratch.times.skipped;
    return ok();
  }
  SampleRandom draws = draws_of(seed_key(plan_.seed()), ref, kSubstituteOp);
  for (int tries = 0; tries < kSubstitutes; ++tries) {
    Status made = produce_item({ref.position, draws.next_below(items())}, leaf_rows, scratch);
    if (made.ok()) ++scratch.times.substituted;
    if (made.ok() || made.error().code != Code::kData) return made;
  }
  return std::move(damage).during(std::to_string(kSubstitutes) +
                                  " others drawn in its place are damaged too");
}

void NativeProducer::tell_of(const Error& damage) const {
  int told = told_damage_.fetch_add(1);
  if (told > kToldDamage) told_damage_ = kToldDamage + 1;  // never wraps
  if (told < kToldDamage) log_line(LogLevel::kWarn, "pipeline", damage.message);
  if (told == kToldDamage)
    log_line(LogLevel::kWarn, "pipeline", "more damaged samples are counted (loader.stats()) and not named");
}

Status NativeProducer::produce_item(SampleRef ref, std::span<uint8_t* const> leaf_rows,
                                    Scratch& scratch) const {
  bool timed = scratch.times.times_next();
  STOKER_ASSIGN(int64_t label, picture(ref, leaf_rows[0], scratch, timed));
  if (plan_.native().source.has_masks()) {
    STOKER_TRY(mask(ref, leaf_rows[1], scratch, timed));
  } else {
    store_le(leaf_rows[1], label);
  }
  ++scratch.times.samples;
  scratch.times.timed += timed;
  return ok();
}

// Its row; its label.
Result<int64_t> NativeProducer::picture(SampleRef ref, uint8_t* out, Scratch& scratch, bool timed) const {
  Scratch::Buffers& buffers = scratch.buffers();
  auto stamp = cache_ ? reader_.stamp(ref.item) : std::nullopt;
  bool keeps_coefficients = stamp && cache_->keeps_coefficients();
  if (keeps_coefficients) {
    if (auto label = kept_picture(ref, *stamp, out, scratch, timed)) return *label;
  }
  int64_t begun = timed ? thread_cpu_ns() : 0;
  auto encoded = read(ref.item, buffers.file);
  if (timed) scratch.times.read_ns += static_cast<uint64_t>(thread_cpu_ns() - begun);
  if (!encoded) return located(std::move(encoded).error(), ref, ref.item, 0);
  scratch.times.read_bytes += encoded->picture.size();

  image::StoredPicture stored(encoded->picture);
  std::optional<CachedCoefficients> made;
  if (keeps_coefficients) {
    made = cache_->make(ref.item, *stamp, stored.data, encoded->label, buffers.cached, buffers.workspace);
    if (made) stored = image::StoredPicture(*made);
  } else if (stamp) {
    stored.scan_index = cache_->scan_index(ref.item, *stamp, stored.data, buffers.cached, buffers.workspace);
  }
  auto transformed = transform(ref, stored, out, scratch, timed);
  buffers.shrink();
  if (!transformed.ok()) return located(std::move(transformed).error(), ref, ref.item, encoded->offset);
  return encoded->label;
}

// From its coefficients alone; nothing if there are none, or whatever else is wrong: the file tells.
std::optional<int64_t> NativeProducer::kept_picture(SampleRef ref, const ItemStamp& stamp, uint8_t* out,
                                                    Scratch& scratch, bool timed) const {
  Scratch::Buffers& buffers = scratch.buffers();
  int64_t begun = timed ? thread_cpu_ns() : 0;
  auto kept = cache_->find(ref.item, stamp, buffers.cached, buffers.cached_rows);
  if (timed) scratch.times.read_ns += static_cast<uint64_t>(thread_cpu_ns() - begun);
  if (!kept || !transform_.encoded(ref, image::StoredPicture(*kept), out, scratch, timed).ok()) return {};
  scratch.times.read_bytes += kept->read_bytes();
  int64_t label = kept->label();
  buffers.shrink();
  return label;
}

Status NativeProducer::transform(SampleRef ref, const image::StoredPicture& picture, uint8_t* out,
                                 Scratch& scratch, bool timed) const {
  Scratch::Buffers& buffers = scratch.buffers();
  Status made = transform_.encoded(ref, picture, out, scratch, timed);
  if (made.ok() && buffers.workspace.notes().gray16_clipped) tell_of_gray16(ref.item);
  if (made.ok() || !others_ || !may_be_other_format(made.error())) return made;
  STOKER_ASSIGN(OtherPicture other,
                others_->decode(picture.data, made.error(), transform_.gray16(), buffers.other_picture));
  if (other.gray16_clipped) tell_of_gray16(ref.item);
  ++scratch.times.other_formats;
  if (timed) scratch.times.decode_ns += static_cast<uint64_t>(other.cpu_ns);
  return transform_.pixels(ref, other.pixels, out, scratch, timed);
}

void NativeProducer::tell_of_gray16(uint64_t item) const {
  if (told_gray16_.exchange(true)) return;
  log_line(
      LogLevel::kWarn, "pipeline",
      path(item) + ": 16-bit gray, clipped to 8 bits as Pillow does it; gray16=\"scale\" keeps high bytes");
}

// The actions are still those of its picture.
Producer::OpNames NativeProducer::ops() const {
  OpNames names = transform_.names();
  if (plan_.native().source.has_masks()) names.ops.push_back("mask");
  return names;
}

Status NativeProducer::mask(SampleRef ref, uint8_t* out, Scratch& scratch, bool timed) const {
  Scratch::Buffers& buffers = scratch.buffers();
  uint64_t stored = items() + ref.item;
  int64_t begun = timed ? thread_cpu_ns() : 0;
  auto file = reader_.read(stored, buffers.file);
  if (timed) scratch.times.read_ns += static_cast<uint64_t>(thread_cpu_ns() - begun);
  if (!file) return located(std::move(file).error(), ref, stored, 0);
  scratch.times.read_bytes += file->size();
  int64_t cpu = timed ? thread_cpu_ns() : 0;
  auto made = transform_.mask(*file, plan_.native().source.mask, out, buffers);
  size_t last_op = plan_.native().ops.size();  // behind the picture's own
  if (timed) scratch.times.op_ns[last_op] += static_cast<uint64_t>(thread_cpu_ns() - cpu);
  if (!made.ok()) return located(std::move(made).error(), ref, stored, 0);
  return ok();
}

void NativeProducer::will_need(std::span<const SampleRef> refs) const {
  bool masks = plan_.native().source.has_masks();
  for (const SampleRef& ref : refs) {
    if (ref.item >= items()) continue;
    if (!cache_ || !cache_->will_need(ref.item)) reader_.will_need(ref.item);
    if (masks) reader_.will_need(items() + ref.item);
  }
}

Result<Json> sample_parameters(const Plan& plan, SampleRef ref, image::Size picture) {
  if (plan.is_python()) return invalid("only native plans have parameters");
  uint64_t key = seed_key(plan.seed());
  Json::Array out;
  if (plan.is_arrays() && !plan.arrays().pictures) return invalid("rows that are copied have no parameters");
  const Ops& ops = plan.is_native() ? plan.native().ops : plan.arrays().pictures->ops;
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
