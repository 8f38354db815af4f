// SPDX-License-Identifier: Apache-2.0
// The messages of the feed, as values and bytes: docs/formats/wire.md. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "base/result.h"
#include "pipeline/producer.h"
#include "wire/frame.h"

namespace stoker::feed {

enum class MessageType : uint8_t {
  kHello = 1,
  kChallenge = 2,
  kProof = 3,
  kWelcome = 4,
  kPlan = 5,
  kPlanOk = 6,
  kPlanNo = 7,
  kPlanEnd = 8,
  kRequest = 9,
  kCancel = 10,
  kCancelled = 11,
  kRows = 12,
  kUnit = 13,
  kError = 14,
  kSlot = 15,
  kSlotDrop = 16,
  kDone = 17,
  kNeed = 18,
  kGrant = 19,
  kPing = 20,
  kPong = 21,
  kGoodbye = 22,
  kTimes = 23,
  kHurry = 24,
  kPace = 25,
  kRegister = 30,
  kSubscribe = 31,
  kView = 32,
};

inline constexpr uint16_t kFlagUnit = 1;
inline constexpr uint16_t kFlagInSlot = 2;

inline constexpr uint64_t kMaxJson = 1 << 20;
inline constexpr uint64_t kMaxPlanJson = 16 << 20;
inline constexpr uint64_t kMaxAttachment = uint64_t{2} << 30;
inline constexpr uint32_t kMaxRowsInRequest = 65536;
inline constexpr uint64_t kMaxUnit = uint64_t{4} << 30;
inline constexpr uint32_t kMaxOpenRequests = 4096;
inline constexpr uint32_t kMaxPlans = 64;
inline constexpr int64_t kHandshakeNs = 5'000'000'000;
inline constexpr int64_t kPingEveryNs = 1'000'000'000;
inline constexpr int64_t kSilenceNs = 10'000'000'000;
inline constexpr uint64_t kFullPace = 1'000'000;         // PACE: a thread may run all the time
inline constexpr uint64_t kLeastPace = kFullPace / 100;  // taken for less
inline constexpr int64_t kPlanNs = 600'000'000'000;      // to open a plan, data set and imports included

// A sample: where it stands in the stream (`position`) and which one of the source it is (`item`).
using Ref = pipeline::SampleRef;

// One leaf of a row-shaped sample, e.g. image float32 [3, 224, 224].
struct Leaf {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t row_bytes = 0;
  bool operator==(const Leaf&) const = default;
};

// What a row-shaped sample consists of, and where rows lie in a slot.
struct Layout {
  std::vector<Leaf> leaves;
  bool operator==(const Layout&) const = default;

  uint64_t row_bytes() const;                               // of all leaves
  std::vector<uint64_t> leaf_offsets(uint64_t rows) const;  // in a slot of so many rows
  uint64_t slot_bytes(uint64_t rows) const;
  Json to_json() const;
  static Result<Layout> from_json(const Json& json);
};

// A sample (or a plan, or a connection) that failed, as it travels and as it reaches the user.
struct Fault {
  Error error;
  std::optional<uint64_t> position, item;  // where known
  bool retry = false;                      // somebody else may do better
  Json json;                               // all that was said, also members this version does not know
};
Code code_of(const std::string& name);  // as code_name() writes it; kInternal for another
std::string fault_to_json(const Fault& fault, const std::string& worker);
Fault fault_from_json(std::string_view text);

// What kind of error it is, for counting: one of a few words (docs/formats/telemetry.md).
const char* error_kind(const Fault& fault);
using ErrorCounts = std::map<std::string, uint64_t>;  // by kind
Json to_json(const ErrorCounts& counts);

std::vector<uint8_t> encode_refs(const std::vector<Ref>& refs);
Result<std::vector<Ref>> decode_refs(ByteView payload, uint32_t count);

// Proofs of the handshake. A nonce is 32 random bytes.
using Nonce = std::array<uint8_t, 32>;
Result<Nonce> make_nonce();
Sha256Digest client_proof(ByteView token, const Nonce& server, const Nonce& client);
Sha256Digest server_proof(ByteView token, const Nonce& client, const Nonce& server);
Result<std::string> read_token(const std::string& path);  // without trailing white space; never empty

// Of an answer's rows, how many were damaged (and what the plan has done about it) or read by Pillow: fields
// a, b, c of ROWS, and of DONE for rows.
struct RowCounts {
  uint64_t skipped = 0, substituted = 0, other_formats = 0;
  RowCounts& operator+=(const RowCounts& other);
};
RowCounts row_counts_of(const wire::Header& header);
void put_row_counts(const RowCounts& counts, wire::Header& header);

using wire::block_hash;  // of a leaf's row, or of a unit
uint64_t row_hash(const uint64_t* leaf_hashes, size_t leaves);
// The terms of the stream digest.
Hash128 row_term(const Ref& ref, const Sha256Digest& plan_hash, uint64_t hash);
Hash128 unit_term(const std::vector<Ref>& refs, const Sha256Digest& plan_hash, uint64_t hash);

inline wire::Header header_of(MessageType type, uint32_t plan = 0, uint32_t request = 0) {
  wire::Header header;
  header.type = static_cast<uint8_t>(type);
  header.plan = plan;
  header.request = request;
  return header;
}

}  // namespace stoker::feed
