// SPDX-License-Identifier: Apache-2.0
// Client: the trainer's end of the feed. One thread of its own receives batches from distant workers and own
// children, verifies them, and hands them out strictly in the order of push(). No sample is computed here,
// and no Python runs here.
//
// Shared: push(), next(), stats(), hurry() and close() from any thread; one thread at a time in next(). A
// Batch owns its memory and may outlive the client.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "feed/assign.h"
#include "feed/protocol.h"
#include "feed/spare_options.h"
#include "wire/child.h"
#include "wire/slots.h"

namespace stoker::feed {

struct ClientOptions {
  std::string plan;                 // canonical JSON
  Sha256Digest plan_hash{};         // stands for it in the stream digest
  std::vector<uint8_t> attachment;  // travels beside it
  bool units = false;               // Python plans: a batch is one opaque unit
  std::optional<Layout> layout;     // rows: checked against what workers say; else theirs is taken

  std::string dispatcher;                    // HOST:PORT of who knows the workers, or
  std::vector<std::string> workers;          // their addresses, and/or
  std::vector<wire::ChildCommand> children;  // own processes, one each
  std::string token;                         // for dispatcher and workers
  SpareOptions spare;                        // beside distant workers

  uint64_t window_bytes = uint64_t{256} << 20;  // of batches asked for and not yet taken
  uint64_t keep_bytes = uint64_t{1} << 30;      // of batches that the user keeps; a warning past it
  uint32_t request_rows = 16;
  int64_t timeout_ms = 60'000;  // without any worker: then the stream fails
  int64_t plan_ns = kPlanNs;    // for a worker or child to open the plan
  int64_t deadline_ms = 0;      // of a range at a child; 0: by measurement
  bool audit = false;           // verify all that comes through shared memory, not one in 64
};

struct Batch {
  uint64_t id = 0;  // the caller's
  std::vector<Ref> refs;
  wire::SlotRef slot;
  uint64_t rows = 0;
  Layout layout;                       // rows
  std::vector<uint64_t> leaf_offsets;  // rows: of each leaf in the slot
  uint64_t unit_bytes = 0;             // units: from the slot's start
};

struct EndpointStats {
  std::string name;  // HOST:PORT, or "child PID"
  bool ready = false;
  bool coming = false;  // connected or started, and about to have our plan
  double rows_per_s = 0;
  uint64_t outstanding_rows = 0;
  uint64_t rows = 0;
};

struct ClientStats {
  uint64_t batches = 0;  // delivered
  uint64_t samples = 0;
  uint64_t bytes_received = 0;  // over TCP
  uint64_t ready = 0;           // batches that wait to be taken
  uint64_t pushed = 0;          // batches not yet delivered, ready ones too
  uint64_t corrupt = 0;         // frames that did not match their hash and were asked for again
  uint64_t disagreed = 0;       // answers of two workers that differ
  ErrorCounts errors;           // what went wrong, by kind, all of the above that is
  Assigner::Counts counts;
  RowCounts row_counts;         // of rows: what workers and children have told with them
  int64_t children_cpu_ns = 0;  // of own children and spare workers, dead ones too
  SpareStats spare;
  int64_t thread_cpu_ns = 0;  // of the client's thread
  int64_t starved_ns = 0;     // answers had begun to come over TCP and the wire had nothing more of them
  std::vector<std::string> children_times;  // what each told of its samples' cost, JSON; dead ones too
  uint64_t slot_bytes = 0;                  // memory held, also by batches that the user keeps
  int64_t wait_ns = 0;  // in next() for batches behind which others were asked for: more workers would help
  int64_t since_first_ns = 0;  // since the first batch was taken
  std::string sizing;          // what the dispatcher said of it last: VIEW's member, JSON; ""
  bool in_order = true;        // positions of rows handed out only ever grew
  std::string digest;          // of all delivered, hex; "stream digest" in the page
  std::string problem;         // the last one with a worker or the dispatcher; ""
  std::vector<EndpointStats> endpoints;
};

// Why next() has no batch: the sample, plan or stream that failed.
struct [[nodiscard]] NextError {
  Fault fault;
  bool stream_over = false;  // no later batch will come either
};

class ClientCore;

class Client {
 public:
  // Returns at once; workers are looked for meanwhile.
  static Result<std::unique_ptr<Client>> open(ClientOptions options);
  ~Client();  // close()

  // Batches are numbered from 0. One that was pushed already is not pushed again: who was interrupted may not
  // know.
  Status push(uint64_t id, std::vector<Ref> refs);
  // The batch pushed longest ago and not yet returned. kDeadline when it is not there by then (call again),
  // kCancelled when nothing is outstanding. An error of one batch stands for that batch; the next call is for
  // the one after it.
  std::variant<Batch, NextError> next(int64_t deadline_monotonic_ns);
  ClientStats stats();
  // The next batch was waited for in vain: a child that has worked on it for so long is replaced.
  void hurry(int64_t limit_ns);
  void close();  // kills and reaps the children; under a second

 private:
  explicit Client(std::unique_ptr<ClientCore> core);
  std::unique_ptr<ClientCore> core_;
};

}  // namespace stoker::feed
