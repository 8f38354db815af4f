// SPDX-License-Identifier: Apache-2.0
// Readers of containers for Python: tar shards, TFRecord files, arrays. File names cross as bytes
// (os.fsencode); no Python object is kept per item. stoker.data.containers documents what users see.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "bindings/dtypes.h"
#include "bindings/errors.h"
#include "pipeline/array_producer.h"
#include "pipeline/block_order.h"
#include "pipeline/containers.h"
#include "pipeline/example.h"
#include "pipeline/item_reader.h"
#include "pipeline/npy.h"
#include "pipeline/tfrecord.h"

namespace nb = nanobind;
using namespace stoker;
using namespace stoker::pipeline;
using nb::literals::operator""_a;

namespace {

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result) bindings::raise(result.error(), /*of_container=*/true);
  return std::move(result).value();
}

using Numbers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::string_view text_of(const nb::bytes& bytes) {
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}
nb::bytes bytes_of(ByteView bytes) { return nb::bytes(bytes.data(), bytes.size()); }
nb::object name_of(std::string_view bytes) {  // as os.fsdecode
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

std::vector<std::string> paths_of(const std::vector<nb::bytes>& paths) {
  std::vector<std::string> out;
  for (const nb::bytes& path : paths) out.emplace_back(text_of(path));
  return out;
}

template <typename T>
nb::object array_of(const std::vector<T>& values) {
  size_t shape[] = {values.size()};
  T* raw = new T[std::max<size_t>(1, values.size())];
  std::copy(values.begin(), values.end(), raw);
  nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(raw, 1, shape, owner));
}

// ---- tar

TarShards open_tars(const std::vector<nb::bytes>& paths) {
  std::vector<std::string> names = paths_of(paths);
  auto shards = [&] {
    nb::gil_scoped_release unlocked;
    return TarShards::open(names);
  }();
  return value_or_raise(std::move(shards));
}

nb::list described(const TarShards& shards) {
  nb::list out;
  for (const OpenShard& shard : shards.shards()) {
    nb::dict one;
    one["path"] = name_of(shard.container.path);
    one["samples"] = shard.index.samples();
    one["left_out"] = shard.index.left_out();
    one["repeated_keys"] = shard.index.repeated_keys();
    one["trailing"] = shard.index.has_trailing();
    one["closed"] = shard.index.is_closed();
    one["plain_bytes"] = shard.index.shard_bytes();
    one["gzip"] = shard.container.gzip;
    one["from_cache"] = shard.from_cache;
    out.append(one);
  }
  return out;
}

TarShards::At at(const TarShards& shards, uint64_t sample) {
  if (sample >= shards.samples()) throw nb::index_error("no such sample");
  return shards.at(sample);
}

// (key, number of the shard, the names of the fields in their order)
nb::tuple sample_of(const TarShards& shards, uint64_t sample) {
  auto [shard, inside] = at(shards, sample);
  const TarIndex& index = shards.shards()[shard].index;
  nb::list fields;
  for (const TarIndex::Member& member : index.members(inside)) fields.append(name_of(index.field(member)));
  return nb::make_tuple(name_of(index.key(inside)), shard, fields);
}

// The bytes of each field; of those named only, unless none is.
nb::dict fields_of(const TarShards& shards, uint64_t sample, const std::vector<std::string>& wanted) {
  auto [shard, inside] = at(shards, sample);
  const TarIndex& index = shards.shards()[shard].index;
  nb::dict out;
  for (const TarIndex::Member& member : index.members(inside)) {
    std::string_view field = index.field(member);
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), field) == wanted.end()) continue;
    auto bytes = [&] {
      nb::gil_scoped_release unlocked;
      return shards.read(shard, member);
    }();
    out[name_of(field)] = bytes_of(value_or_raise(std::move(bytes)));
  }
  return out;
}

nb::tuple pick(const TarShards& shards, const std::vector<std::string>& pictures, const std::string& label,
               bool skip_incomplete, const nb::bytes& root) {
  std::string folder(text_of(root));
  auto picked = [&] {
    nb::gil_scoped_release unlocked;
    return shards.pick(pictures, label, skip_incomplete, folder);
  }();
  TarShards::Picked found = value_or_raise(std::move(picked));
  nb::object samples = found.samples.empty() ? nb::none() : array_of(found.samples);
  return nb::make_tuple(std::move(found.manifest), samples);
}

// ---- TFRecord

Manifest index_records(const std::vector<nb::bytes>& paths, const nb::bytes& root) {
  std::vector<std::string> names = paths_of(paths);
  std::string folder(text_of(root));
  auto manifest = [&] {
    nb::gil_scoped_release unlocked;
    return index_tfrecords(names, folder);
  }();
  return value_or_raise(std::move(manifest));
}

nb::bytes data_of_record(const nb::bytes& frame, const nb::bytes& path, uint64_t offset) {
  return bytes_of(value_or_raise(record_data(as_bytes(text_of(frame)), std::string(text_of(path)), offset)));
}

nb::dict example_of(const nb::bytes& data) {
  nb::dict out;
  for (const Feature& feature : value_or_raise(parse_example(as_bytes(text_of(data))))) {
    nb::object value = nb::none();
    if (auto texts = std::get_if<std::vector<ByteView>>(&feature.values)) {
      nb::list list;
      for (ByteView text : *texts) list.append(bytes_of(text));
      value = list;
    } else if (auto floats = std::get_if<std::vector<float>>(&feature.values)) {
      value = array_of(*floats);
    } else if (auto integers = std::get_if<std::vector<int64_t>>(&feature.values)) {
      value = array_of(*integers);
    }
    out[name_of(feature.name)] = value;
  }
  return out;
}

// ---- items, arrays

nb::bytes read_item(const ItemReader& reader, uint64_t item) {
  if (item >= reader.manifest().items()) throw nb::index_error("no such item");
  std::vector<uint8_t> buffer;
  auto bytes = [&] {
    nb::gil_scoped_release unlocked;
    return reader.read(item, buffer);
  }();
  return bytes_of(value_or_raise(std::move(bytes)));
}

nb::tuple npy_header(const nb::bytes& begin, const nb::bytes& name) {
  NpyHeader header = value_or_raise(read_npy_header(as_bytes(text_of(begin)), std::string(text_of(name))));
  return nb::make_tuple(dtype_name(header.dtype), nb::tuple(nb::cast(header.shape)), header.data_at,
                        header.data_bytes);
}

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

std::unique_ptr<Producer> open_arrays(const Plan& plan, const std::vector<AnyArray>& arrays) {
  std::vector<ByteView> columns;
  for (const AnyArray& array : arrays)
    columns.emplace_back(static_cast<const uint8_t*>(array.data()), array.nbytes());
  return value_or_raise(ArrayProducer::open(plan, std::move(columns)));
}

}  // namespace

void bind_sources(nb::module_& parent) {
  nb::module_ module = nb::borrow<nb::module_>(parent.attr("pipeline"));
  nb::class_<TarShards>(module, "TarShards")
      .def_static("open", &open_tars, "paths"_a)
      .def_prop_ro("samples", &TarShards::samples)
      .def("shards", &described)
      .def("sample", &sample_of, "sample"_a)
      .def("fields", &fields_of, "sample"_a, "wanted"_a = std::vector<std::string>())
      .def("pick", &pick, "pictures"_a, "label"_a, "skip_incomplete"_a, "root"_a);
  module.def("index_tfrecords", &index_records, "paths"_a, "root"_a);
  module.def("record_data", &data_of_record, "frame"_a, "path"_a, "offset"_a);
  module.def("parse_example", &example_of, "data"_a);
  nb::class_<ItemReader>(module, "ItemReader")
      .def("__init__",
           [](ItemReader* self, const Manifest& manifest, const nb::bytes& root) {
             new (self) ItemReader(manifest, std::string(text_of(root)));
           })
      .def("read", &read_item, "item"_a)
      .def("path",
           [](const ItemReader& reader, uint64_t item) {
             if (item >= reader.manifest().items()) throw nb::index_error("no such item");
             return name_of(reader.path(item));
           })
      .def("offset", [](const ItemReader& reader, uint64_t item) {
        if (item >= reader.manifest().items()) throw nb::index_error("no such item");
        return reader.offset(item);
      });
  nb::class_<ManifestBuilder>(module, "ManifestBuilder",
                              "Manifests of extents: files, then what lies in each.")
      .def(nb::init<>())
      .def("add_file", [](ManifestBuilder& builder, const nb::bytes& path,
                          uint64_t size) { builder.add_file(text_of(path), size); })
      .def("add_extents",
           [](ManifestBuilder& builder, const Numbers& offsets, const Numbers& lengths,
              const Numbers& labels) {
             if (offsets.shape(0) != lengths.shape(0) || offsets.shape(0) != labels.shape(0))
               throw nb::value_error("offsets, lengths and labels differ in number");
             for (size_t i = 0; i < offsets.shape(0); ++i)
               builder.add_extent(static_cast<uint64_t>(offsets.data()[i]),
                                  static_cast<uint64_t>(lengths.data()[i]), labels.data()[i]);
           })
      .def("finish", [](const ManifestBuilder& builder) {
        return value_or_raise(Manifest::from_bytes(builder.finish()));
      });
  nb::class_<BlockOrder>(module, "BlockOrder",
                         "order(position) -> item; windows of shards, see stoker.data.block")
      .def_static(
          "make",
          [](const std::vector<uint64_t>& starts, uint64_t window, uint64_t seed) {
            return value_or_raise(BlockOrder::make(starts, window, seed));
          },
          "starts"_a, "window"_a, "seed"_a)
      .def("__call__", &BlockOrder::item_at, "position"_a)
      .def("items", [](BlockOrder& order, uint64_t first, uint64_t count) {
        std::vector<uint64_t> items(count);
        order.items_at(first, count, items.data());
        return array_of(items);
      });
  module.def("npy_header", &npy_header, "begin"_a, "name"_a);
  // The arrays live as long as the producer.
  module.def("open_arrays", &open_arrays, "plan"_a, "arrays"_a, nb::keep_alive<0, 2>());
}
