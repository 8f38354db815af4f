// SPDX-License-Identifier: Apache-2.0
// An HTTP request and response as values, and the few rules of URLs that both ends need. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace stoker::http {

using Headers = std::vector<std::pair<std::string, std::string>>;  // names in lower case
using Query = std::vector<std::pair<std::string, std::string>>;    // decoded

struct Request {
  std::string method;
  std::string path;  // decoded, without the query
  Query query;
  Headers headers;
  std::string body;
  int peer_uid = -1;             // who is at the other end of a Unix socket; -1 over TCP
  std::optional<Error> refused;  // why nothing may be asked over its connection (Server::Admit)

  std::string_view header(std::string_view lower_case_name) const;  // "" where absent
  std::string_view query_value(std::string_view name) const;        // "" where absent
};

struct Response {
  int status = 200;
  Headers headers;
  std::string body;
};

Response json_response(const Json& body, int status = 200);

// Errors travel as {"error":{"code":NAME,"message":TEXT}} under the status that fits the code.
Response error_response(const Error& error);
int status_of(Code code);
Error error_of(int status, std::string_view body);  // the reverse, for the client

std::string percent_decode(std::string_view text, bool plus_is_space = false);
std::string percent_encode(std::string_view text);  // everything but unreserved characters
void split_target(std::string_view target, std::string& path, Query& query);

}  // namespace stoker::http
