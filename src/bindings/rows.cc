// SPDX-License-Identifier: Apache-2.0
// Batches of rows made in this process, on the calling thread or by threads of ours. Batches are NumPy arrays
// on a block of memory that they own. A signal's handler may raise as a call returns: nothing is counted as
// taken by a call that gives it, and what was given and not taken is made again, or given again.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "bindings/errors.h"
#include "bindings/hashes.h"
#include "feed/row_threads.h"

namespace nb = nanobind;
using namespace stoker;
using namespace stoker::feed;
using nb::literals::operator""_a;
using stoker::bindings::check_or_raise;
using stoker::bindings::value_or_raise;

namespace {

using Numbers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<Ref> refs_of(int64_t first, const Numbers& items) {
  std::vector<Ref> refs(items.shape(0));
  for (size_t i = 0; i < refs.size(); ++i) {
    if (first < 0 || items.data()[i] < 0) throw nb::value_error("positions and items are not negative");
    refs[i] = {static_cast<uint64_t>(first) + i, static_cast<uint64_t>(items.data()[i])};
  }
  return refs;
}

// ---- arrays

struct Lent {  // what arrays hold
  BlockRef block;
};

int lend(PyObject* self, Py_buffer* view, int flags) {
  MutableBytes bytes = nb::inst_ptr<Lent>(self)->block->bytes();
  return PyBuffer_FillInfo(view, self, bytes.data(), static_cast<Py_ssize_t>(bytes.size()), 0, flags);
}
PyType_Slot lent_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(lend)}, {0, nullptr}};

// Leaves of one layout as arrays: numpy.ndarray(shape, dtype, block, offset), a third of what an array by
// DLPack costs.
class Arrays {
 public:
  explicit Arrays(const pipeline::RowLayout& layout) : layout_(layout) {
    nb::module_ numpy = nb::module_::import_("numpy");
    array_ = numpy.attr("ndarray");
    for (const pipeline::Leaf& leaf : layout.leaves)
      dtypes_.append(numpy.attr("dtype")(pipeline::dtype_name(leaf.dtype)));
  }

  nb::list of(const BlockRef& block, const RowPlaces& places, size_t rows) {
    if (rows != rows_) shape(rows);
    nb::object lent = nb::cast(Lent{block});
    nb::list arrays;
    for (size_t k = 0; k < layout_.leaves.size(); ++k)
      arrays.append(array_(shapes_[k], dtypes_[k], lent, places.leaf_offsets[k]));
    return arrays;
  }

 private:
  void shape(size_t rows) {
    rows_ = rows;
    shapes_ = nb::list();
    for (const pipeline::Leaf& leaf : layout_.leaves) {
      nb::list shape;
      shape.append(rows);
      for (int64_t size : leaf.shape) shape.append(size);
      shapes_.append(nb::tuple(shape));
    }
  }

  const pipeline::RowLayout& layout_;  // the producer's
  nb::object array_;
  nb::list dtypes_, shapes_;
  size_t rows_ = ~size_t{0};
};

// ---- on the calling thread

class Maker {
 public:
  Maker(const pipeline::Producer& producer, const std::optional<std::string>& plan_hash)
      : producer_(producer), arrays_(producer.layout()) {
    if (producer.quick()) scratch_.times.rarely_timed();
    if (plan_hash) plan_ = bindings::plan_hash_of(*plan_hash);
  }

  // (arrays, the batch's sum of terms of the stream digest in hex, or "").
  nb::tuple make(int64_t first, const Numbers& items) {
    std::vector<Ref> refs = refs_of(first, items);
    RowPlaces places = row_places(producer_.layout(), refs.size());
    BlockRef block;
    RowsMade made{ok(), 0, {}};
    {
      nb::gil_scoped_release unlocked;
      int64_t began = monotonic_ns();
      auto taken = pool_->take(places.bytes);
      if (taken) {
        block = std::move(taken).value();
        made = make_rows(producer_, refs, block->bytes().data(), places, plan_ ? &*plan_ : nullptr, scratch_);
      } else {
        made.status = taken.error();
      }
      scratch_.times.busy_ns += static_cast<uint64_t>(monotonic_ns() - began);
    }
    check_or_raise(made.status);
    return nb::make_tuple(arrays_.of(block, places, refs.size()), plan_ ? made.term.hex() : std::string());
  }

  std::string times() const { return to_json(without_clock(scratch_.times, producer_), producer_).dump(); }

 private:
  static constexpr size_t kFree = 3;  // one with the training loop, one being made, one to spare
  const pipeline::Producer& producer_;
  Arrays arrays_;
  std::optional<Sha256Digest> plan_;
  std::shared_ptr<BlockPool> pool_ = BlockPool::make(kFree, RowThreads::Options().keep_bytes);
  pipeline::Scratch scratch_;
};

// ---- on threads of ours

class Threads {
 public:
  Threads(const pipeline::Producer& producer, RowThreads::Options options)
      : producer_(producer), arrays_(producer.layout()), threads_(producer, options) {}

  void push(uint64_t number, int64_t first, const Numbers& items, uint64_t wanted) {
    check_or_raise(threads_.push(number, refs_of(first, items), wanted));
  }

  nb::object front(double timeout_s, uint64_t wanted) {
    const RowBatch* batch = threads_.front(0, wanted);
    if (!batch) {
      nb::gil_scoped_release unlocked;
      batch = threads_.front(monotonic_ns() + static_cast<int64_t>(std::clamp(timeout_s, 0.0, 1e6) * 1e9),
                             wanted);
    }
    if (!batch) return nb::none();
    if (batch->fault) return nb::cast(fault_to_json(*batch->fault, ""));
    return arrays_.of(batch->block, batch->places, batch->refs.size());
  }

  nb::tuple figures(uint64_t wanted) {
    RowThreadFigures figures = threads_.figures(wanted);
    return nb::make_tuple(figures.digest.hex(), static_cast<double>(figures.cpu_ns) * 1e-9,
                          to_json(without_clock(figures.times, producer_), producer_)
                              .set("cpu_s", static_cast<double>(figures.cpu_ns) * 1e-9)
                              .dump());
  }

  void stop() {
    nb::gil_scoped_release unlocked;
    threads_.stop();
  }
  RowThreads& threads() { return threads_; }

 private:
  const pipeline::Producer& producer_;
  Arrays arrays_;
  RowThreads threads_;
};

}  // namespace

void bind_rows(nb::module_& root) {
  nb::module_ module = nb::borrow<nb::module_>(root.attr("feed"));
  nb::class_<Lent>(module, "Block", nb::type_slots(lent_slots), "Memory of a batch, as a buffer.");
  nb::class_<Maker>(module, "RowMaker", "Makes batches of rows on the calling thread. Confined.")
      .def(nb::init<const pipeline::Producer&, std::optional<std::string>>(), "producer"_a,
           "plan_hash"_a = nb::none(), nb::keep_alive<1, 2>())
      .def("make", &Maker::make, "first"_a, "items"_a,
           "(arrays, one per leaf; the sum of the rows' terms of the stream digest in 32 hex digits, or \"\" "
           "without "
           "a plan_hash). `items`: int64; positions follow `first`. The first sample that fails raises.")
      .def("times", &Maker::times, "What samples have cost, as JSON: docs/formats/wire.md, a child's times.");
  nb::class_<Threads>(module, "RowThreads",
                      "Batches of rows that threads of this process make ahead, in order.")
      .def(
          "__init__",
          [](Threads* self, const pipeline::Producer& producer, const std::string& plan_hash, int threads,
             uint64_t window_bytes, size_t free_blocks) {
            RowThreads::Options options;
            options.plan = bindings::plan_hash_of(plan_hash);
            options.threads = threads;
            options.window_bytes = window_bytes;
            options.free_blocks = free_blocks;
            if (threads < 1) throw nb::value_error("threads must be positive");
            new (self) Threads(producer, options);
          },
          "producer"_a, "plan_hash"_a, "threads"_a, "window_bytes"_a = RowThreads::Options().window_bytes,
          "free_blocks"_a = RowThreads::Options().free_blocks, nb::keep_alive<1, 2>())
      .def("push", &Threads::push, "number"_a, "first"_a, "items"_a, "wanted"_a,
           "Asks for batch `number`, unless it was asked for already; positions follow `first`. Batches "
           "below `wanted` "
           "are taken.")
      .def("front", &Threads::front, "timeout_s"_a, "wanted"_a,
           "Batch number `wanted`: a list of arrays, one per leaf; the JSON of an error, "
           "docs/formats/wire.md, where it "
           "failed; None where it is not made in time.")
      .def(
          "drop", [](Threads& self, uint64_t wanted) { return self.threads().drop(wanted); }, "wanted"_a,
          "What was pushed is not wanted any more. The number of what is pushed next.")
      .def("figures", &Threads::figures, "wanted"_a,
           "(digest of all that was taken in hex, CPU seconds of the threads, what samples cost as JSON).")
      .def("stop", &Threads::stop, "Ends the threads; batches stay valid. Idempotent.");
}
