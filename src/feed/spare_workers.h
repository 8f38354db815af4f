// SPDX-License-Identifier: Apache-2.0
// SpareWorkers: the processes by which spare cores of the trainer's machine take part
// (docs/decisions/spare-cores.md): children of the client, of idle priority, that make rows or units into
// memory of their own. Started when they are first needed, paced by Slack, and never a reason for the stream
// to fail: one that cannot go on is not there any more, and the loader's stats() say why. Confined to the
// client's loop.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "feed/child_link.h"
#include "feed/endpoint_pool.h"
#include "feed/own_threads.h"
#include "feed/slack.h"
#include "feed/spare_options.h"

namespace stoker::feed {

class ClientCore;

class SpareWorkers : public ChildHandler {
 public:
  struct Kid {
    wire::ChildCommand command;
    std::unique_ptr<ChildLink> link;  // none: not started, or dead
    EndpointId endpoint = 0;          // 0: not (yet) of use
    uint32_t parallel = 1;
    std::map<uint32_t, wire::SlotRef> slots;  // rows: of what it is asked for, by request
    int deaths = 0;
    int failures = 0;  // without an answer between
    int64_t cpu_ns = 0;
    int64_t not_before_ns = 0;  // is it started again
    int64_t heard_ns = 0;       // since when it has said nothing
  };

  // They write into slots of `pool`, which are shared memory.
  SpareWorkers(ClientCore& core, wire::Loop& loop, std::shared_ptr<wire::SlotPool> pool,
               SpareOptions options);

  // Twice a second. `waited_ns`: the loop, so far, for batches.
  void tick(int64_t waited_ns, bool has_helpers, int64_t now);
  void give_up(const std::string& why);  // for good
  void kill(Kid& kid, const std::string& how);
  void drop_slots(const std::vector<uint64_t>& gone);
  void end();  // kills and reaps; nothing happens after it
  SpareStats stats() const;

 private:
  double measure(int64_t waited_ns, int64_t now);
  void start_missing(int64_t now);
  void set_share(double share);
  void tell_pace();
  void down(Kid& kid, const std::string& how);
  static std::unique_ptr<ChildLink> take_link(Kid& kid);
  void forget(Kid& kid, const std::string& why);
  Kid& kid_of(ChildLink& link);
  void on_child_ready(ChildLink& child, const Json& reply, uint32_t parallel) override;
  void on_child_refused(ChildLink& child, const Fault& fault) override;
  void on_child_rows(ChildLink& child, uint32_t request, std::vector<uint64_t> hashes,
                     const RowCounts& counts) override;
  void on_child_unit(ChildLink& child, uint32_t request, wire::SlotRef slot, uint64_t bytes,
                     uint64_t hash) override;
  void on_child_error(ChildLink& child, uint32_t request, const Fault& fault) override;
  void on_child_cancelled(ChildLink& child, uint32_t request) override;
  void on_child_gone(ChildLink& child, const std::string& how) override;

  ClientCore& core_;
  wire::Loop& loop_;
  const std::shared_ptr<wire::SlotPool> pool_;
  const SpareOptions options_;
  OwnThreads threads_;
  Slack slack_;
  std::vector<Kid> kids_;
  double share_ = 0;           // cores
  uint64_t pace_ = kFullPace;  // of each thread, as told last
  int64_t last_waited_ns_ = 0;
  bool ended_ = false;
  std::string why_ended_;
};

}  // namespace stoker::feed
