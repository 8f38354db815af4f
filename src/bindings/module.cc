// SPDX-License-Identifier: Apache-2.0
// stoker._native: one bind_ROOM per room that Python sees, in src/bindings/ROOM.cc.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_image(nb::module_& module);
void bind_pipeline(nb::module_& module);
void bind_sources(nb::module_& module);
void bind_feed(nb::module_& module);
void bind_rows(nb::module_& module);

NB_MODULE(_native, module) {
  module.doc() = "The compiled part of stoker; use it through the stoker package.";
  // A fork of a training process keeps its copy of a feed client for ever (feed_engine.py): no leak to tell
  // of.
  nb::set_leak_warnings(false);
  bind_image(module);
  bind_pipeline(module);
  bind_sources(module);
  bind_feed(module);
  bind_rows(module);
}
