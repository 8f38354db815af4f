// SPDX-License-Identifier: Apache-2.0
// Plans, manifests, orders and an in-process producer for Python. JSON crosses as text, file names as bytes
// (os.fsencode), numbers of items as NumPy arrays: no Python object is kept per item.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>

#include "bindings/dtypes.h"
#include "bindings/errors.h"
#include "feed/pillow.h"
#include "pipeline/image_folder.h"
#include "pipeline/native_producer.h"
#include "pipeline/order.h"
#include "pipeline/plan.h"

namespace nb = nanobind;
using namespace stoker;
using namespace stoker::pipeline;
using nb::literals::operator""_a;
using stoker::bindings::check_or_raise;
using stoker::bindings::value_or_raise;

namespace {

using Labels = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::string_view text_of(const nb::bytes& bytes) {
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}
nb::bytes bytes_of(std::string_view text) { return nb::bytes(text.data(), text.size()); }
nb::object name_of(std::string_view bytes) {  // as os.fsdecode
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

template <typename T>
nb::object new_array(std::unique_ptr<T[]> data, const std::vector<size_t>& shape) {
  T* raw = data.release();
  nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(raw, shape.size(), shape.data(), owner));
}

// ---- manifests

nb::object labels_of(nb::object self) {
  const Manifest& manifest = nb::cast<const Manifest&>(self);
  size_t shape[] = {manifest.items()};
  return nb::cast(nb::ndarray<nb::numpy, const int64_t>(manifest.labels().data(), 1, shape, self));
}

nb::list classes_of(const Manifest& manifest) {
  nb::list names;
  for (size_t i = 0; i < manifest.class_count(); ++i) names.append(name_of(manifest.class_name(i)));
  return names;
}

nb::object path_of(const Manifest& manifest, uint64_t item) {
  if (item >= manifest.items()) throw nb::index_error("no such item");
  return name_of(manifest.path(item));
}

nb::tuple listing_of(Result<FolderListing> listing) {
  FolderListing found = value_or_raise(std::move(listing));
  nb::list warnings;
  for (const std::string& warning : found.warnings) warnings.append(name_of(warning));
  return nb::make_tuple(std::move(found.manifest), warnings, found.from_cache);
}

nb::tuple open_folder(const nb::bytes& root, bool allow_empty_classes, bool use_cache) {
  std::string at(text_of(root));
  auto listing = [&] {
    nb::gil_scoped_release unlocked;
    return use_cache ? open_image_folder(at, allow_empty_classes)
                     : list_image_folder(at, allow_empty_classes);
  }();
  return listing_of(std::move(listing));
}

Manifest of_files(const nb::bytes& paths, const Labels& labels, const std::vector<nb::bytes>& classes,
                  const nb::bytes& root, const nb::bytes& working_folder) {
  std::vector<std::string> names;
  for (const nb::bytes& name : classes) names.emplace_back(text_of(name));
  auto manifest = [&] {
    nb::gil_scoped_release unlocked;
    return manifest_of_files(text_of(paths), {labels.data(), labels.shape(0)}, names, text_of(root),
                             text_of(working_folder));
  }();
  return value_or_raise(std::move(manifest));
}

// ---- plans

Status check_op_list(const std::string& text, std::optional<std::pair<int, int>> size) {
  STOKER_ASSIGN(Json list, Json::parse(text));
  STOKER_ASSIGN(Ops ops, read_ops(list, "ops"));
  if (!size) {
    STOKER_TRY(check_ops(ops));
    return ok();
  }
  STOKER_TRY(check_ops(ops, Known{.size = image::Size{size->first, size->second}}));
  return ok();
}

// ---- orders

OrderKind kind_of(const std::string& name) {
  if (name == "sequential") return OrderKind::kSequential;
  if (name == "full") return OrderKind::kFull;
  throw nb::value_error("order must be 'sequential' or 'full'");
}

Order order_of(const std::string& kind, uint64_t items, uint64_t seed) {
  if (items == 0) throw nb::value_error("an order of no items has no positions");
  return Order(kind_of(kind), items, seed);
}

nb::object order_items(const Order& order, uint64_t first, uint64_t count) {
  std::unique_ptr<int64_t[]> out(new int64_t[count]);
  {
    nb::gil_scoped_release unlocked;
    order.items_at(first, count, reinterpret_cast<uint64_t*>(out.get()));
  }
  return new_array(std::move(out), {count});
}

BatchPlan batches_of(uint64_t items, uint64_t batch_size, bool drop_last) {
  if (batch_size == 0) throw nb::value_error("batch_size must be positive");
  return {items, batch_size, drop_last};
}

// ---- single samples in this process; batches: rows.cc

Scratch& scratch_of_thread() {
  thread_local Scratch scratch;
  return scratch;
}

struct Column {
  DType dtype;
  std::vector<size_t> shape;
  uint64_t row_bytes;
  std::unique_ptr<uint8_t[]> bytes;
};

nb::object array_of(Column column) {
  uint8_t* raw = column.bytes.release();
  nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<uint8_t*>(p); });
  return nb::cast(nb::ndarray<nb::numpy>(raw, column.shape.size(), column.shape.data(), owner, nullptr,
                                         bindings::array_dtype(column.dtype)));
}

Status produce_rows(const Producer& producer, const Numbers& positions, const Numbers& items,
                    const std::vector<uint8_t*>& starts, Scratch& scratch) {
  nb::gil_scoped_release unlocked;
  const std::vector<Leaf>& leaves = producer.layout().leaves;
  std::vector<uint8_t*> rows(leaves.size());
  auto ref = [&](size_t i) {
    return SampleRef{static_cast<uint64_t>(positions.data()[i]), static_cast<uint64_t>(items.data()[i])};
  };
  for (size_t i = 0; i < items.shape(0); ++i) {
    for (size_t k = 0; k < leaves.size(); ++k) rows[k] = starts[k] + i * leaves[k].row_bytes;
    STOKER_TRY(producer.produce(ref(i), rows, scratch));
  }
  return ok();
}

// One array per leaf, a row per sample. The first sample that fails raises.
nb::tuple produce(const Producer& producer, const Numbers& positions, const Numbers& items) {
  size_t count = positions.shape(0);
  if (items.shape(0) != count) throw nb::value_error("positions and items differ in length");
  std::vector<Column> columns;
  for (const Leaf& leaf : producer.layout().leaves) {
    Column column{leaf.dtype, {count}, leaf.row_bytes, nullptr};
    column.shape.insert(column.shape.end(), leaf.shape.begin(), leaf.shape.end());
    column.bytes.reset(new uint8_t[std::max<size_t>(1, count * leaf.row_bytes)]);
    columns.push_back(std::move(column));
  }
  std::vector<uint8_t*> starts;
  for (const Column& column : columns) starts.push_back(column.bytes.get());
  check_or_raise(produce_rows(producer, positions, items, starts, scratch_of_thread()));
  nb::list arrays;
  for (Column& column : columns) arrays.append(array_of(std::move(column)));
  return nb::tuple(arrays);
}

nb::list layout_of(const Producer& producer) {
  nb::list leaves;
  for (const Leaf& leaf : producer.layout().leaves)
    leaves.append(
        nb::make_tuple(leaf.name, dtype_name(leaf.dtype), nb::tuple(nb::cast(leaf.shape)), leaf.row_bytes));
  return leaves;
}

// What a picture cache is made of in Python: its kind, folder, budget and that of all in the folder.
using CacheTuple = std::optional<std::tuple<std::string, nb::bytes, uint64_t, uint64_t>>;

PictureCacheOptions cache_options(const CacheTuple& given) {
  if (!given) return {};
  return {std::get<0>(*given), std::string(text_of(std::get<1>(*given))), std::get<2>(*given),
          std::get<3>(*given)};
}

std::unique_ptr<Producer> open_producer(const Plan& plan, std::optional<nb::bytes> attachment,
                                        const CacheTuple& cache, std::shared_ptr<feed::Pillow> others) {
  auto producer = [&] {
    ByteView bytes = attachment ? as_bytes(text_of(*attachment)) : ByteView();
    PictureCacheOptions options = cache_options(cache);
    nb::gil_scoped_release unlocked;
    return open_native(plan, bytes, options, std::move(others));
  }();
  return value_or_raise(std::move(producer));
}

// (path, pictures, bytes) of the store that such loaders share.
nb::tuple cache_figures(const Plan& plan, const CacheTuple& cache) {
  PictureCacheOptions options = cache_options(cache);
  auto opened = value_or_raise(PictureCache::open(options, plan));
  PictureStore::Figures figures = opened->figures();
  return nb::make_tuple(name_of(opened->path()), figures.entries, figures.bytes);
}

}  // namespace

void bind_pipeline(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("pipeline", "Plans, manifests, orders; see stoker.data.source.");

  nb::class_<Plan>(module, "Plan")
      .def_static(
          "parse", [](const std::string& json) { return value_or_raise(Plan::parse(json)); }, "json"_a)
      .def_prop_ro("json", &Plan::json)
      .def_prop_ro("hash", &Plan::hash)
      .def_prop_ro("is_native", &Plan::is_native)
      .def_prop_ro("items", &Plan::items)
      .def_prop_ro("seed", &Plan::seed)
      .def("check_libraries", [](const Plan& plan) { check_or_raise(check_libraries(plan)); })
      .def(
          "parameters",
          [](const Plan& plan, uint64_t position, uint64_t item, int width, int height) {
            return value_or_raise(sample_parameters(plan, {position, item}, {width, height})).dump();
          },
          "position"_a, "item"_a, "width"_a, "height"_a);
  // Whether these ops (a JSON list) may stand in a plan, of encoded pictures or of pixels of that size;
  // ValueError says why not.
  module.def(
      "check_ops",
      [](const std::string& json, std::optional<std::pair<int, int>> size) {
        check_or_raise(check_op_list(json, size));
      },
      "json"_a, "size"_a = nb::none());
  // Where manifests, indexes and plans are kept, as bytes (os.fsdecode); OSError where none can be written.
  module.def("cache_folder", [] { return bytes_of(value_or_raise(cache_folder())); });
  module.def(
      "native_libraries", [](const std::string& pillow) { return native_libraries(pillow).dump(); },
      "pillow_major"_a);

  nb::class_<Manifest>(module, "Manifest")
      .def_static("from_bytes",
                  [](const nb::bytes& bytes) {
                    ByteView view = as_bytes(text_of(bytes));
                    return value_or_raise(Manifest::from_bytes({view.begin(), view.end()}));
                  })
      .def_prop_ro("items", &Manifest::items)
      .def_prop_ro("hash", &Manifest::hash)
      .def_prop_ro("labels", &labels_of)
      .def_prop_ro("classes", &classes_of)
      .def("path", &path_of, "item"_a)
      .def("bytes", [](const Manifest& manifest) { return bytes_of(as_text(manifest.bytes())); })
      .def_static("of_cache",
                  [](const std::string& hash) {
                    std::string cache = value_or_raise(cache_folder());
                    return value_or_raise(Manifest::open(cache + "/manifests/" + hash));
                  })
      .def_prop_ro("file_starts",
                   [](const Manifest& manifest) {
                     if (!manifest.has_extents()) throw nb::value_error("its items are whole files");
                     return manifest.file_starts();
                   })
      .def("save", [](const Manifest& manifest) { check_or_raise(save_manifest(manifest)); });
  module.def("open_image_folder", &open_folder, "root"_a, "allow_empty_classes"_a = false,
             "use_cache"_a = true);
  module.def("manifest_of_files", &of_files, "paths"_a, "labels"_a, "classes"_a, "root"_a,
             "working_folder"_a);

  nb::class_<Order>(module, "Order", "order(position) -> item; kinds 'sequential' and 'full'")
      .def(
          "__init__",
          [](Order* self, const std::string& kind, uint64_t items, uint64_t seed) {
            new (self) Order(order_of(kind, items, seed));
          },
          "kind"_a, "items"_a, "seed"_a)
      .def("__call__", &Order::item_at, "position"_a)
      .def("items", &order_items, "first"_a, "count"_a);
  module.def("order_key", &order_key, "seed"_a, "epoch"_a);
  module.def("batch_count", [](uint64_t items, uint64_t batch_size, bool drop_last) {
    return batches_of(items, batch_size, drop_last).batches();
  });
  module.def("batch_range",
             [](uint64_t items, uint64_t batch_size, bool drop_last, uint64_t epoch, uint64_t index) {
               auto range = batches_of(items, batch_size, drop_last).batch(epoch, index);
               return std::pair(range.first, range.count);
             });

  module.def("picture_cache_figures", &cache_figures, "plan"_a, "cache"_a);

  nb::class_<Producer>(module, "Producer")
      .def_static("open", &open_producer, "plan"_a, "attachment"_a = nb::none(), "cache"_a = nb::none(),
                  "others"_a = nb::none())
      .def_prop_ro("layout", &layout_of)
      .def_prop_ro("items", &Producer::items)
      .def("produce", &produce, "positions"_a, "items"_a);
}
