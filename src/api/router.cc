// SPDX-License-Identifier: Apache-2.0
#include "api/router.h"

#include <unistd.h>

#include "telemetry/inside.h"

namespace stoker::api {

namespace {

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    if (path.front() == '/') {
      path.remove_prefix(1);
      continue;
    }
    size_t end = path.find('/');
    parts.emplace_back(path.substr(0, end));
    path = end == std::string_view::npos ? std::string_view() : path.substr(end);
  }
  return parts;
}

bool may(Access access, const http::Request& request) {
  switch (access) {
    case Access::kOwner:
      return request.peer_uid == 0 || request.peer_uid == static_cast<int>(::getuid());
  }
  return false;
}

bool match(const std::vector<std::string>& pattern, const std::vector<std::string>& parts,
           Router::Parameters& parameters) {
  if (pattern.size() != parts.size()) return false;
  parameters.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (pattern[i].front() == '{')
      parameters.push_back(parts[i]);
    else if (pattern[i] != parts[i])
      return false;
  }
  return true;
}

}  // namespace

Status admit(int socket, const std::string& own) {
  STOKER_ASSIGN(const std::string instance, telemetry::instance_of_peer(socket));
  if (instance == own) return ok();
  return Error{
      Code::kDenied, "a process of a job may not ask a stoker server; run this outside of the job", {}};
}

void Router::add(std::string method, std::string_view pattern, Access access, Handle handle) {
  routes_.push_back({std::move(method), std::string(pattern), split(pattern), access, std::move(handle)});
}

void Router::answer(http::ExchangePtr exchange) const {
  const http::Request& request = exchange->request();
  std::vector<std::string> parts = split(request.path);
  Parameters parameters;
  bool path_known = false;
  for (const Route& route : routes_) {
    if (!match(route.parts, parts, parameters)) continue;
    path_known = true;
    if (route.method != request.method) continue;
    if (!may(route.access, request))
      return exchange->respond(
          http::error_response({Code::kDenied, "only the user who runs this server may ask", {}}));
    if (request.refused) return exchange->respond(http::error_response(*request.refused));
    return route.handle(std::move(exchange), parameters);
  }
  Error error{path_known ? Code::kUnsupported : Code::kNotFound,
              "no such request: " + request.method + " " + request.path,
              {}};
  exchange->respond(http::error_response(error));
}

}  // namespace stoker::api
