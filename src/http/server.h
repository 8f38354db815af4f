// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server on a Unix socket, on the loop's thread. It reads a whole request within limits, hands an
// Exchange to the handler and waits, however long that takes, until somebody answers it: at once, later (long
// poll), or in pieces (a log that is followed). Everything here is confined to the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "http/loop.h"
#include "http/message.h"

namespace stoker::http {

// One request and the way to answer it. Shared by the connection and by whoever will answer; when the peer
// has gone, answering does nothing. Either respond() once, or begin_stream(), write()…, end_stream().
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  virtual void respond(Response response) = 0;
  virtual void begin_stream(int status, const std::string& content_type) = 0;
  // `then(true)` when the socket has taken the bytes: only then hand over the next, so that a slow reader
  // costs no memory. `then(false)` when the peer is gone.
  virtual void write(std::string bytes, std::function<void(bool taken)> then) = 0;
  virtual void end_stream() = 0;
  virtual bool gone() const = 0;
  virtual void when_gone(
      std::function<void()> callback) = 0;  // at most once, not after the answer is complete
};

using ExchangePtr = std::shared_ptr<Exchange>;
using Handler = std::function<void(ExchangePtr)>;
// May the process at the other end of this socket ask at all? Looked at once, when its connection is
// accepted: later its number may be another's. The error comes with each request (Request::refused), and the
// connection ends with the first answer.
using Admit = std::function<Status(int socket)>;

struct Limits {
  size_t header_bytes = 16 * 1024;
  size_t body_bytes = 16u << 20;
  size_t connections = 1024;
  std::chrono::seconds read{60};    // for a whole request, and for a kept connection to ask again
  std::chrono::seconds write{600};  // for one piece of an answer
};

class Server {
 public:
  Server(Loop& loop, Handler handler, Limits limits = {}, Admit admit = {});
  ~Server();  // answers nobody any more
  Server(const Server&) = delete;

  // Makes the socket with mode 0600 in place of what was there.
  Status listen_unix(const std::string& path);
  size_t connections() const;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace stoker::http
