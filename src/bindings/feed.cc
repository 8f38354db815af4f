// SPDX-License-Identifier: Apache-2.0
// The feed's client for Python. Batches are NumPy arrays on the slot's memory and own it; waiting lets go of
// the GIL; the client's thread never takes it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "bindings/dtypes.h"
#include "bindings/errors.h"
#include "bindings/hashes.h"
#include "feed/client.h"
#include "feed/cores.h"
#include "feed/pillow.h"
#include "feed/worker.h"
#include "pipeline/plan.h"

namespace nb = nanobind;
using namespace stoker;
using namespace stoker::feed;
using nb::literals::operator""_a;
using stoker::bindings::check_or_raise;
using stoker::bindings::plan_hash_of;
using stoker::bindings::value_or_raise;

namespace {

using Numbers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Array = nb::ndarray<nb::c_contig, nb::device::cpu>;
PyObject* feed_error = nullptr;  // the class FeedError; the module keeps it alive

ByteView bytes_of(const nb::bytes& bytes) {
  return {static_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

std::vector<Ref> refs_of(const Numbers& positions, const Numbers& items) {
  if (positions.shape(0) != items.shape(0)) throw nb::value_error("as many positions as items are needed");
  std::vector<Ref> refs(items.shape(0));
  for (size_t i = 0; i < refs.size(); ++i) {
    if (positions.data()[i] < 0 || items.data()[i] < 0)
      throw nb::value_error("positions and items are not negative");
    refs[i] = {static_cast<uint64_t>(positions.data()[i]), static_cast<uint64_t>(items.data()[i])};
  }
  return refs;
}

// ---- batches

nb::capsule owner_of(const wire::SlotRef& slot) {
  return nb::capsule(new wire::SlotRef(slot),
                     [](void* held) noexcept { delete static_cast<wire::SlotRef*>(held); });
}

nb::dlpack::dtype dtype_of(const std::string& name) {
  auto known = pipeline::dtype_named(name);
  if (!known) throw nb::value_error(("a leaf of type " + name + " has no array").c_str());
  return bindings::array_dtype(*known);
}

nb::list leaves_of(const Batch& batch) {
  nb::list arrays;
  for (size_t k = 0; k < batch.layout.leaves.size(); ++k) {
    const Leaf& leaf = batch.layout.leaves[k];
    std::vector<size_t> shape = {batch.rows};
    for (int64_t size : leaf.shape) shape.push_back(static_cast<size_t>(size));
    arrays.append(
        nb::cast(nb::ndarray<nb::numpy>(batch.slot->bytes().data() + batch.leaf_offsets[k], shape.size(),
                                        shape.data(), owner_of(batch.slot), nullptr, dtype_of(leaf.dtype))));
  }
  return arrays;
}

nb::list names_of(const Batch& batch) {
  nb::list names;
  for (const Leaf& leaf : batch.layout.leaves) names.append(leaf.name);
  return names;
}

nb::object unit_of(const Batch& batch) {
  size_t shape[] = {batch.unit_bytes};
  return nb::cast(
      nb::ndarray<nb::numpy, uint8_t>(batch.slot->bytes().data(), 1, shape, owner_of(batch.slot)));
}

// ---- the client

std::vector<wire::ChildCommand> commands_of(const std::vector<std::vector<std::string>>& children,
                                            const std::vector<std::string>& environment, int nice) {
  std::vector<wire::ChildCommand> commands;
  for (const auto& argv : children) commands.push_back({argv, environment, nice, false});
  return commands;
}

std::unique_ptr<Client> open_client(const std::string& plan, const nb::bytes& attachment, bool units,
                                    const std::string& dispatcher, const std::vector<std::string>& workers,
                                    const std::vector<std::vector<std::string>>& children,
                                    const std::vector<std::string>& environment, const std::string& token,
                                    uint64_t window_bytes, uint64_t keep_bytes, uint32_t request_rows,
                                    double timeout_s, double deadline_s, bool audit, int nice,
                                    const std::vector<std::vector<std::string>>& spare, double spare_cores,
                                    bool spare_measured) {
  ClientOptions options;
  options.plan = plan;
  options.plan_hash = plan_hash_of(value_or_raise(pipeline::Plan::parse(plan)).hash());
  ByteView view = bytes_of(attachment);
  options.attachment.assign(view.begin(), view.end());
  options.units = units;
  options.dispatcher = dispatcher;
  options.workers = workers;
  options.children = commands_of(children, environment, nice);
  options.token = token;
  options.spare = {commands_of(spare, environment, 0), spare_cores, spare_measured};
  for (wire::ChildCommand& command : options.spare.commands) command.idle = true;
  options.window_bytes = window_bytes;
  options.keep_bytes = keep_bytes;
  options.request_rows = std::max(1U, request_rows);
  options.timeout_ms = static_cast<int64_t>(timeout_s * 1e3);
  options.deadline_ms = static_cast<int64_t>(deadline_s * 1e3);
  options.audit = audit;
  auto client = [&] {
    nb::gil_scoped_release unlocked;
    return Client::open(std::move(options));
  }();
  return value_or_raise(std::move(client));
}

void push(Client& client, uint64_t id, const Numbers& positions, const Numbers& items) {
  std::vector<Ref> refs = refs_of(positions, items);
  check_or_raise(client.push(id, std::move(refs)));
}

nb::object next(Client& client, double timeout_s, std::optional<nb::list> into) {
  int64_t wait_ns = static_cast<int64_t>(std::clamp(timeout_s, 0.0, 1e6) * 1e9);
  auto got = [&] {
    nb::gil_scoped_release unlocked;
    return client.next(monotonic_ns() + wait_ns);
  }();
  if (auto* batch = std::get_if<Batch>(&got)) {
    nb::object given = nb::cast(std::move(*batch));
    if (into) into->append(given);
    return given;
  }
  const NextError& error = std::get<NextError>(got);
  if (error.fault.error.code == Code::kDeadline && !error.stream_over) return nb::none();
  nb::object described = nb::cast(fault_to_json(error.fault, ""));
  nb::object arguments = nb::make_tuple(described, error.stream_over);
  PyErr_SetObject(feed_error, arguments.ptr());
  throw nb::python_error();
}

nb::dict stats_of(Client& client) {
  ClientStats stats = [&] {
    nb::gil_scoped_release unlocked;
    return client.stats();
  }();
  nb::dict out;
  out["batches"] = stats.batches;
  out["samples"] = stats.samples;
  out["bytes_received"] = stats.bytes_received;
  out["ready"] = stats.ready;
  out["pushed"] = stats.pushed;
  out["corrupt"] = stats.corrupt;
  out["disagreed"] = stats.disagreed;
  out["asked"] = stats.counts.asked;
  out["hedged"] = stats.counts.hedged;
  out["retried"] = stats.counts.retried;
  out["dropped"] = stats.counts.dropped;
  out["lost"] = stats.counts.lost;
  out["expelled"] = stats.counts.expelled;
  out["skipped"] = stats.row_counts.skipped;
  out["substituted"] = stats.row_counts.substituted;
  out["other_formats"] = stats.row_counts.other_formats;
  out["children_cpu_s"] = static_cast<double>(stats.children_cpu_ns) / 1e9;
  out["thread_cpu_s"] = static_cast<double>(stats.thread_cpu_ns) / 1e9;
  out["children_times"] = stats.children_times;
  out["slot_bytes"] = stats.slot_bytes;
  out["in_order"] = stats.in_order;
  out["digest"] = stats.digest;
  out["problem"] = stats.problem;
  out["wait_s"] = static_cast<double>(stats.wait_ns) / 1e9;
  out["sizing"] = stats.sizing;
  nb::dict spare;
  spare["state"] = stats.spare.state;
  spare["why"] = stats.spare.why;
  spare["cores"] = stats.spare.cores;
  spare["samples"] = stats.spare.samples;
  spare["cpu_s"] = static_cast<double>(stats.spare.cpu_ns) / 1e9;
  out["spare"] = spare;
  out["starved_s"] = static_cast<double>(stats.starved_ns) / 1e9;
  nb::dict errors;
  for (const auto& [kind, count] : stats.errors) errors[kind.c_str()] = count;
  out["errors"] = errors;
  nb::list endpoints;
  for (const EndpointStats& one : stats.endpoints) {
    nb::dict entry;
    entry["name"] = one.name;
    entry["ready"] = one.ready;
    entry["coming"] = one.coming;
    entry["rows_per_s"] = one.rows_per_s;
    entry["outstanding_rows"] = one.outstanding_rows;
    entry["rows"] = one.rows;
    endpoints.append(entry);
  }
  out["endpoints"] = endpoints;
  return out;
}

void close_client(Client& client) {
  nb::gil_scoped_release unlocked;
  client.close();
}

// ---- hashes and digests, for what Python makes itself

uint64_t hash_of_buffer(nb::object buffer) {
  Py_buffer view;
  if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  uint64_t hash;
  {
    nb::gil_scoped_release unlocked;
    hash = feed::block_hash({static_cast<const uint8_t*>(view.buf), static_cast<size_t>(view.len)});
  }
  PyBuffer_Release(&view);
  return hash;
}

std::string unit_digest(uint64_t first_position, const std::vector<uint64_t>& items,
                        const std::string& plan_hash, uint64_t hash) {
  std::vector<Ref> refs;
  for (uint64_t item : items) refs.push_back({first_position + refs.size(), item});
  return unit_term(refs, plan_hash_of(plan_hash), hash).hex();
}

std::string rows_digest(const Numbers& positions, const Numbers& items, const std::string& plan_hash,
                        const std::vector<Array>& leaves) {
  std::vector<Ref> refs = refs_of(positions, items);
  Sha256Digest plan = plan_hash_of(plan_hash);
  for (const Array& leaf : leaves)
    if (leaf.ndim() < 1 || leaf.shape(0) != refs.size())
      throw nb::value_error("each leaf has a row per position");
  nb::gil_scoped_release unlocked;
  Hash128 sum;
  std::vector<uint64_t> hashes(leaves.size());
  for (size_t row = 0; row < refs.size(); ++row) {
    for (size_t k = 0; k < leaves.size(); ++k) {
      size_t size = leaves[k].nbytes() / refs.size();
      hashes[k] = feed::block_hash({static_cast<const uint8_t*>(leaves[k].data()) + row * size, size});
    }
    sum += row_term(refs[row], plan, row_hash(hashes.data(), hashes.size()));
  }
  return sum.hex();
}

}  // namespace

void bind_feed(nb::module_& root) {
  nb::module_ module =
      root.def_submodule("feed", "Batches from worker processes, near and far: docs/formats/wire.md.");
  feed_error = PyErr_NewExceptionWithDoc("stoker._native.feed.FeedError",
                                         "A batch or the stream failed. args: (error JSON as text, see "
                                         "docs/formats/wire.md; whether the stream is over).",
                                         nullptr, nullptr);
  module.attr("FeedError") = nb::borrow(feed_error);

  nb::class_<Batch>(module, "Batch", "One batch in memory that its arrays own.")
      .def_ro("id", &Batch::id)
      .def_ro("rows", &Batch::rows)
      .def_prop_ro("names", &names_of, "Names of the leaves; empty for a unit.")
      .def_prop_ro("leaves", &leaves_of, "One array per leaf, rows first.")
      .def_prop_ro("unit", &unit_of, "The unit's bytes as a uint8 array.");

  nb::class_<Client>(module, "FeedClient")
      .def_static(
          "open", &open_client, "plan"_a, "attachment"_a = nb::bytes("", 0), "units"_a = false,
          "dispatcher"_a = "", "workers"_a = std::vector<std::string>{},
          "children"_a = std::vector<std::vector<std::string>>{},
          "environment"_a = std::vector<std::string>{}, "token"_a = "",
          "window_bytes"_a = uint64_t{256} << 20, "keep_bytes"_a = uint64_t{1} << 30, "request_rows"_a = 16,
          "timeout_s"_a = 60.0, "deadline_s"_a = 0.0, "audit"_a = false, "nice"_a = 0,
          "spare"_a = std::vector<std::vector<std::string>>{}, "spare_cores"_a = 0.0,
          "spare_measured"_a = true,
          "Starts looking for workers and returns at once. `children`: one command per own process, to which "
          "`--fd 3` is appended; `environment`: NAME=VALUE for them. `spare`: commands of processes that "
          "help distant workers with `spare_cores` cores of this machine, or with what it leaves of them.")
      .def("push", &push, "id"_a, "positions"_a, "items"_a, "Asks for a batch; int64 arrays of equal length.")
      .def(
          "next", &next, "timeout_s"_a, "into"_a = nb::none(),
          "The batch pushed longest ago; None if it is not there in time. It is appended to the list `into` "
          "as "
          "well: a signal's handler that raises as we return costs no batch then. Raises FeedError: for that "
          "batch alone, or for the stream (args[1]).")
      .def("stats", &stats_of)
      .def(
          "hurry", [](Client& client, double limit_s) { client.hurry(static_cast<int64_t>(limit_s * 1e9)); },
          "limit_s"_a,
          "The next batch was waited for in vain: a process that has been at it for so long is replaced.")
      .def("close", &close_client, "Ends its processes and connections; batches stay valid.");

  nb::class_<feed::Pillow>(module, "Pillow", nb::is_weak_referenceable(),
                           "Reads pictures that we do not, in Python processes of its own.")
      .def(
          "__init__",
          [](feed::Pillow* self, std::vector<std::string> python, std::vector<std::string> environment,
             double wall_s) {
            feed::Pillow::Limits limits;
            limits.wall_ns = static_cast<int64_t>(wall_s * 1e9);
            new (self) feed::Pillow(std::move(python), std::move(environment), limits);
          },
          "python"_a, "environment"_a, "wall_s"_a = 30.0)
      .def_prop_ro("pids", &feed::Pillow::pids, "Of its idle processes.");

  module.def("allowed_cores", &feed::allowed_cores, "By affinity and quota, rounded up.");
  module.def("allowed_cpu", &feed::allowed_cpu, "The same, not rounded.");
  module.def(
      "exception_class",
      [](const std::string& code) { return nb::borrow(bindings::builtin_exception(code_of(code))); },
      "code"_a, "The built-in class that a code of an error JSON is raised as where no process is between.");
  module.def("block_hash", &hash_of_buffer, "buffer"_a);
  module.def("unit_term", &unit_digest, "first_position"_a, "items"_a, "plan_hash"_a, "hash"_a,
             "A unit's term of the stream digest, as 32 hexadecimal digits.");
  module.def("rows_term", &rows_digest, "positions"_a, "items"_a, "plan_hash"_a, "leaves"_a,
             "The sum of some rows' terms of the stream digest, as 32 hexadecimal digits.");
  root.attr("block_hash") = module.attr("block_hash");
  root.attr("unit_term") = module.attr("unit_term");
}
