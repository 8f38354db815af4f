// SPDX-License-Identifier: Apache-2.0
// Which handler answers a request, and who may ask. Every route says who may; there is no default. Confined
// to the loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "http/server.h"

namespace stoker::api {

enum class Access {
  kOwner,  // who runs the server (the uid at the other end of the Unix socket), or root
};

// Of every connection, when it is accepted: a job's process runs as the job's user and may see sockets of
// the user's servers. Only who is of the server's own instance may ask ("" for none, as a rule).
Status admit(int socket, const std::string& own);

class Router {
 public:
  using Parameters = std::vector<std::string>;  // what stood for each {…} of the pattern
  using Handle = std::function<void(http::ExchangePtr, const Parameters&)>;

  // Pattern: "/v1/jobs/{job}/stop".
  void add(std::string method, std::string_view pattern, Access access, Handle handle);
  void answer(http::ExchangePtr exchange) const;

  struct Route {
    std::string method;
    std::string pattern;
    std::vector<std::string> parts;  // of the pattern
    Access access;
    Handle handle;
  };
  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace stoker::api
