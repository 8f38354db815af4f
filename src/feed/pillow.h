// SPDX-License-Identifier: Apache-2.0
// Pictures of formats that we do not read, by Pillow in Python processes of ours
// (python/stoker/data/pillow_child.py; the bytes between us: docs/formats/pillow-child.md). None is started
// before a picture wants one; a thread that asks while all are busy gets another, up to a limit. One that
// dies or takes too long costs its picture and is replaced.
//
// Shared: any thread; decode() blocks its caller. Processes end with the object, or with us.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "pipeline/other_formats.h"
#include "wire/process.h"

namespace stoker::feed {

class Pillow final : public pipeline::OtherFormats {
 public:
  static constexpr size_t kMostProcesses = 64;
  struct Limits {
    int64_t wall_ns = 30'000'000'000;  // of one picture; CPU and memory are limited by the process itself
    size_t processes = kMostProcesses;
  };

  // `python`: interpreter and options; `environment`: NAME=VALUE over ours.
  Pillow(std::vector<std::string> python, std::vector<std::string> environment,
         Limits limits = {30'000'000'000, kMostProcesses});
  ~Pillow() override;

  Result<pipeline::OtherPicture> decode(ByteView file, const Error& refused, image::Gray16 gray16,
                                        std::vector<uint8_t>& pixels) const override;
  int64_t cpu_ns() const { return cpu_ns_; }  // of pictures that came out
  std::vector<int> pids() const;              // of idle processes, for tests

 private:
  struct Pool {
    int owner = 0;  // our pid: a fork of us has none of them
    size_t alive = 0;
    std::vector<wire::Process> idle;
  };
  Result<wire::Process> take() const;
  void give_back(wire::Process process) const;
  void lose(wire::Process process) const;

  wire::ChildCommand command_;
  Limits limits_;
  mutable Guarded<Pool> pool_;
  mutable std::atomic<int64_t> cpu_ns_ = 0;
};

}  // namespace stoker::feed
