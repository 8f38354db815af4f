// SPDX-License-Identifier: Apache-2.0
// A blocking HTTP/1.1 client over a Unix socket, written by hand so that a command that asks one question
// starts in a millisecond and an agent carries no event loop. One connection, kept alive between requests and
// made again when the server has closed it. Confined.
//
// A timeout gives kDeadline, a server that isn't there kUnavailable. Answers of any status are Responses;
// `call()` turns 4xx and 5xx into the Error they carry.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "http/message.h"

namespace stoker::http {

class Client {
 public:
  using Milliseconds = std::chrono::milliseconds;

  explicit Client(std::string socket_path) : path_(std::move(socket_path)) {}

  // `target` is path and query, already encoded. The timeout covers the whole exchange.
  // A request that the server may have seen is not sent twice.
  Result<Response> send(std::string_view method, std::string_view target, std::string_view body = {},
                        Milliseconds timeout = Milliseconds(30'000));

  Result<Json> call(std::string_view method, std::string_view target, const Json& body = {},
                    Milliseconds timeout = Milliseconds(30'000));

  // Hands over the body as it arrives, until it ends or on_bytes returns false (kCancelled). No timeout
  // between pieces: a quiet log is not an error.
  Status stream(std::string_view target, const std::function<bool(std::string_view)>& on_bytes);

  // Whenever fd is readable while an answer is waited for, on_wake is called; it must empty the descriptor,
  // and ends the exchange (kCancelled) by returning false. For Ctrl-C.
  void set_wake(int fd, std::function<bool()> on_wake) {
    wake_fd_ = fd;
    on_wake_ = std::move(on_wake);
  }

 private:
  struct Waiter;
  Status connect();
  Status write(std::string_view bytes, Waiter& waiter);
  Status fill(Waiter& waiter);  // reads some bytes more into buffer_; kUnavailable at the end of the stream
  Result<std::string_view> line(Waiter& waiter);
  Result<Response> head(Waiter& waiter);
  Status body(const Response& response, bool to_the_end, Waiter& waiter,
              const std::function<bool(std::string_view)>& on_bytes);
  Status exchange(std::string_view method, std::string_view target, std::string_view body, Waiter& waiter,
                  Response& response);

  std::string path_;
  int wake_fd_ = -1;
  std::function<bool()> on_wake_;
  UniqueFd fd_;
  std::string buffer_;
  size_t at_ = 0;  // what of buffer_ has been taken
};

}  // namespace stoker::http
