// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

namespace stoker::http {

namespace {

std::string_view find(const std::vector<std::pair<std::string, std::string>>& pairs, std::string_view name) {
  for (const auto& [key, value] : pairs)
    if (key == name) return value;
  return {};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct CodeStatus {
  Code code;
  int status;
};
// The first row of a status is what error_of() gives back where the body names no code.
constexpr CodeStatus kStatuses[] = {
    {Code::kInvalid, 400},     {Code::kDenied, 403},   {Code::kNotFound, 404},    {Code::kExists, 409},
    {Code::kUnsupported, 422}, {Code::kDeadline, 504}, {Code::kUnavailable, 503}, {Code::kNoSpace, 507},
    {Code::kCancelled, 499},   {Code::kData, 422},     {Code::kInternal, 500},    {Code::kNoMemory, 507},
};

}  // namespace

std::string_view Request::header(std::string_view name) const { return find(headers, name); }
std::string_view Request::query_value(std::string_view name) const { return find(query, name); }

Response json_response(const Json& body, int status) {
  return {status, {{"content-type", "application/json"}}, body.dump() + "\n"};
}

int status_of(Code code) {
  for (const CodeStatus& row : kStatuses)
    if (row.code == code) return row.status;
  return 500;
}

Response error_response(const Error& error) {
  Json detail;
  detail.set("code", code_name(error.code)).set("message", error.message);
  Json body;
  body.set("error", std::move(detail));
  return json_response(body, status_of(error.code));
}

Error error_of(int status, std::string_view body) {
  Code code = Code::kInternal;
  for (const CodeStatus& row : kStatuses) {
    if (row.status == status) {
      code = row.code;
      break;
    }
  }
  std::string message = "the server answered " + std::to_string(status);
  if (auto parsed = Json::parse(body); parsed.ok()) {
    const Json& detail = (*parsed)["error"];
    if (detail["message"].is_string()) message = detail["message"].as_string();
    for (const CodeStatus& row : kStatuses)
      if (detail["code"].as_string() == code_name(row.code)) code = row.code;
  }
  return {code, std::move(message), {}};
}

std::string percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high >= 0 && low >= 0) {
        out.push_back(static_cast<char>(high * 16 + low));
        i += 2;
        continue;
      }
    }
    out.push_back(plus_is_space && text[i] == '+' ? ' ' : text[i]);
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (unsigned char c : text) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                 c == '_' || c == '.' || c == '~';
    if (plain) {
      out.push_back(static_cast<char>(c));
    } else {
      out.push_back('%');
      out.push_back(kDigits[c >> 4]);
      out.push_back(kDigits[c & 15]);
    }
  }
  return out;
}

void split_target(std::string_view target, std::string& path, Query& query) {
  size_t mark = target.find('?');
  path = percent_decode(target.substr(0, mark));
  query.clear();
  if (mark == std::string_view::npos) return;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    size_t end = rest.find('&');
    std::string_view item = rest.substr(0, end);
    size_t equals = item.find('=');
    if (!item.empty())
      query.emplace_back(
          percent_decode(item.substr(0, equals), true),
          equals == std::string_view::npos ? "" : percent_decode(item.substr(equals + 1), true));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace stoker::http
