// SPDX-License-Identifier: Apache-2.0
#include "feed/protocol.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "base/files.h"

namespace stoker::feed {
namespace {
constexpr uint64_t kLeafAlign = 64;
uint64_t aligned(uint64_t bytes) { return (bytes + kLeafAlign - 1) / kLeafAlign * kLeafAlign; }

Sha256Digest proof(ByteView token, std::string_view label, const Nonce& first, const Nonce& second) {
  std::string message(label);
  message.append(as_text(first)).append(as_text(second));
  return hmac_sha256(token, as_bytes(message));
}
}  // namespace

uint64_t Layout::row_bytes() const {
  uint64_t sum = 0;
  for (const Leaf& leaf : leaves) sum += leaf.row_bytes;
  return sum;
}

std::vector<uint64_t> Layout::leaf_offsets(uint64_t rows) const {
  std::vector<uint64_t> offsets;
  uint64_t at = 0;
  for (const Leaf& leaf : leaves) {
    offsets.push_back(at);
    at = aligned(at + rows * leaf.row_bytes);
  }
  return offsets;
}

uint64_t Layout::slot_bytes(uint64_t rows) const {
  uint64_t at = 0;
  for (const Leaf& leaf : leaves) at = aligned(at + rows * leaf.row_bytes);
  return at;
}

Json Layout::to_json() const {
  Json all;
  for (const Leaf& leaf : leaves) {
    Json shape = Json::Array{};
    for (int64_t size : leaf.shape) shape.push(size);
    Json one;
    one.set("name", leaf.name).set("dtype", leaf.dtype).set("shape", shape).set("row_bytes", leaf.row_bytes);
    all.push(one);
  }
  Json json;
  json.set("leaves", all);
  return json;
}

Result<Layout> Layout::from_json(const Json& json) {
  Layout layout;
  for (const Json& one : json["leaves"].as_array()) {
    Leaf leaf;
    STOKER_ASSIGN(leaf.name, one.need_string("name"));
    STOKER_ASSIGN(leaf.dtype, one.need_string("dtype"));
    STOKER_ASSIGN(int64_t bytes, one.need_int("row_bytes"));
    if (bytes < 0 || bytes > (int64_t{1} << 40))
      return invalid("row_bytes " + std::to_string(bytes) + " of a leaf");
    leaf.row_bytes = static_cast<uint64_t>(bytes);
    for (const Json& size : one["shape"].as_array()) leaf.shape.push_back(size.as_int());
    layout.leaves.push_back(std::move(leaf));
  }
  if (layout.leaves.empty() || layout.leaves.size() > 256)
    return invalid("a layout of " + std::to_string(layout.leaves.size()) + " leaves");
  return layout;
}

Code code_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i)
    if (name == code_name(static_cast<Code>(i))) return static_cast<Code>(i);
  return Code::kInternal;
}

std::string fault_to_json(const Fault& fault, const std::string& worker) {
  Json json = fault.json.is_object() ? fault.json : Json(Json::Object{});
  json.set("code", code_name(fault.error.code)).set("message", fault.error.message);
  if (fault.position) json.set("position", *fault.position);
  if (fault.item) json.set("item", *fault.item);
  json.set("retry", fault.retry);
  if (!worker.empty()) json.set("worker", worker);
  if (fault.error.fault) {
    Json data;
    data.set("kind", fault.error.fault->kind).set("path", fault.error.fault->path);
    data.set("offset", fault.error.fault->offset);
    json.set("fault", data);
  }
  return json.dump();
}

Fault fault_from_json(std::string_view text) {
  Fault fault;
  auto parsed = Json::parse(text);
  if (!parsed.ok()) {
    fault.error = internal("a worker reported an error that cannot be read: " + parsed.error().message);
    return fault;
  }
  fault.json = std::move(parsed).value();
  fault.error = {code_of(fault.json["code"].as_string()), fault.json["message"].as_string(), {}};
  if (const Json& data = fault.json["fault"]; data.is_object())
    fault.error.fault =
        DataFault{data["kind"].as_string(), data["path"].as_string(), data["offset"].as_int(-1)};
  if (const Json& position = fault.json["position"]; position.is_int())
    fault.position = static_cast<uint64_t>(position.as_int());
  if (const Json& item = fault.json["item"]; item.is_int()) fault.item = static_cast<uint64_t>(item.as_int());
  fault.retry = fault.json["retry"].as_bool();
  return fault;
}

// What travels is a peer's word: anything but the words we know is "other".
const char* error_kind(const Fault& fault) {
  static constexpr const char* kData[] = {"empty",   "not_image", "unsupported", "truncated",
                                          "corrupt", "too_large", "unreadable"};
  if (fault.error.fault)
    for (const char* kind : kData)
      if (fault.error.fault->kind == kind) return kind;
  if (fault.json["type"].is_string()) return "python";
  switch (fault.error.code) {
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDeadline:
      return "timeout";
    case Code::kNoSpace:
      return "no_space";
    default:
      return "other";
  }
}

Json to_json(const ErrorCounts& counts) {
  Json json = Json::Object{};
  for (auto& [kind, count] : counts)
    if (count > 0) json.set(kind, count);
  return json;
}

std::vector<uint8_t> encode_refs(const std::vector<Ref>& refs) {
  std::vector<uint8_t> out(refs.size() * 16);
  for (size_t i = 0; i < refs.size(); ++i) {
    store_le(out.data() + 16 * i, refs[i].position);
    store_le(out.data() + 16 * i + 8, refs[i].item);
  }
  return out;
}

Result<std::vector<Ref>> decode_refs(ByteView payload, uint32_t count) {
  if (count == 0 || count > kMaxRowsInRequest || payload.size() != size_t{count} * 16)
    return invalid("a request for " + std::to_string(count) + " samples in " +
                   std::to_string(payload.size()) + " bytes");
  std::vector<Ref> refs(count);
  for (size_t i = 0; i < count; ++i)
    refs[i] = {load_le<uint64_t>(payload.data() + 16 * i), load_le<uint64_t>(payload.data() + 16 * i + 8)};
  return refs;
}

Result<Nonce> make_nonce() {
  Nonce nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    return errno_error("drawing random bytes", errno);
  return nonce;
}

Sha256Digest client_proof(ByteView token, const Nonce& server, const Nonce& client) {
  return proof(token, "stoker-feed/1 client", server, client);
}

Sha256Digest server_proof(ByteView token, const Nonce& client, const Nonce& server) {
  return proof(token, "stoker-feed/1 server", client, server);
}

Result<std::string> read_token(const std::string& path) {
  STOKER_ASSIGN(std::string token, read_text(path));
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  if (token.empty()) return invalid("the token file " + path + " is empty");
  return token;
}

RowCounts& RowCounts::operator+=(const RowCounts& other) {
  skipped += other.skipped;
  substituted += other.substituted;
  other_formats += other.other_formats;
  return *this;
}

RowCounts row_counts_of(const wire::Header& header) { return {header.a, header.b, header.c}; }

void put_row_counts(const RowCounts& counts, wire::Header& header) {
  header.a = counts.skipped;
  header.b = counts.substituted;
  header.c = counts.other_formats;
}

uint64_t row_hash(const uint64_t* leaf_hashes, size_t leaves) {
  return xxh3_64({reinterpret_cast<const uint8_t*>(leaf_hashes), leaves * sizeof *leaf_hashes});
}

Hash128 row_term(const Ref& ref, const Sha256Digest& plan_hash, uint64_t hash) {
  uint8_t bytes[56];
  store_le(bytes, ref.position);
  store_le(bytes + 8, ref.item);
  std::copy(plan_hash.begin(), plan_hash.end(), bytes + 16);
  store_le(bytes + 48, hash);
  return xxh3_128(bytes);
}

Hash128 unit_term(const std::vector<Ref>& refs, const Sha256Digest& plan_hash, uint64_t hash) {
  std::vector<uint64_t> items;
  for (const Ref& ref : refs) items.push_back(ref.item);
  uint8_t bytes[64];
  store_le(bytes, refs.empty() ? uint64_t{0} : refs.front().position);
  store_le(bytes + 8, static_cast<uint64_t>(refs.size()));
  store_le(bytes + 16,
           xxh3_64({reinterpret_cast<const uint8_t*>(items.data()), items.size() * sizeof items[0]}));
  std::copy(plan_hash.begin(), plan_hash.end(), bytes + 24);
  store_le(bytes + 56, hash);
  return xxh3_128(bytes);
}

}  // namespace stoker::feed
