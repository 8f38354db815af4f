// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace stoker::http {

namespace {
using SteadyClock = std::chrono::steady_clock;
constexpr size_t kMaxLine = 16 * 1024;
constexpr size_t kMaxBody = 256u << 20;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string_view header_of(const Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return {};
}
}  // namespace

// What a read or write waits for beside the socket.
struct Client::Waiter {
  bool has_deadline = false;
  SteadyClock::time_point deadline{};
  int wake_fd = -1;
  const std::function<bool()>* on_wake = nullptr;

  Status wait(int fd, short events) const {
    while (true) {
      int timeout_ms = -1;
      if (has_deadline) {
        auto left = std::chrono::ceil<Milliseconds>(deadline - SteadyClock::now()).count();
        if (left <= 0) return Error{Code::kDeadline, "the server did not answer in time", {}};
        timeout_ms = static_cast<int>(std::min<int64_t>(left, 1 << 30));
      }
      pollfd fds[2] = {{fd, events, 0}, {wake_fd, POLLIN, 0}};
      int n = ::poll(fds, wake_fd >= 0 ? 2 : 1, timeout_ms);
      if (n < 0 && errno != EINTR) return errno_error("waiting for the server", errno);
      if (n <= 0) continue;
      if (wake_fd >= 0 && fds[1].revents != 0 && !(*on_wake)())
        return Error{Code::kCancelled, "interrupted", {}};
      if (fds[0].revents != 0) return ok();
    }
  }
};

Status Client::connect() {
  buffer_.clear();
  at_ = 0;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path)
    return invalid("the socket path is longer than " + std::to_string(sizeof address.sun_path - 1) +
                   " bytes: " + path_);
  std::memcpy(address.sun_path, path_.data(), path_.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error("making a socket", errno);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    const int failed = errno;
    Error error = errno_error("connecting to " + path_, failed);
    if (failed == ENOENT || failed == ECONNREFUSED || failed == EAGAIN) error.code = Code::kUnavailable;
    return error;
  }
  fd_ = std::move(fd);
  return ok();
}

Status Client::write(std::string_view bytes, Waiter& waiter) {
  while (!bytes.empty()) {
    ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      STOKER_TRY(waiter.wait(fd_.get(), POLLOUT));
      continue;
    }
    if (n < 0) {
      Error error = errno_error("sending to the server", errno);
      error.code = Code::kUnavailable;
      return error;
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return ok();
}

Status Client::fill(Waiter& waiter) {
  if (at_ == buffer_.size()) {
    buffer_.clear();
    at_ = 0;
  }
  STOKER_TRY(waiter.wait(fd_.get(), POLLIN));
  size_t have = buffer_.size();
  constexpr size_t kPiece = 64 * 1024;
  buffer_.resize(have + kPiece);
  ssize_t n;
  do {
    n = ::recv(fd_.get(), buffer_.data() + have, kPiece, 0);
  } while (n < 0 && errno == EINTR);
  buffer_.resize(have + static_cast<size_t>(std::max<ssize_t>(n, 0)));
  if (n < 0) return unavailable(std::string("reading from the server: ") + std::strerror(errno));
  if (n == 0) return unavailable("the server closed the connection");
  return ok();
}

Result<std::string_view> Client::line(Waiter& waiter) {
  size_t searched = at_;
  while (true) {
    size_t end = buffer_.find("\r\n", searched);
    if (end != std::string::npos) {
      std::string_view found(buffer_.data() + at_, end - at_);
      at_ = end + 2;
      return found;
    }
    if (buffer_.size() - at_ > kMaxLine) return invalid("the server sent a line longer than 16 KiB");
    if (at_ > 0) {
      buffer_.erase(0, at_);
      at_ = 0;
    }
    searched = buffer_.empty() ? 0 : buffer_.size() - 1;
    STOKER_TRY(fill(waiter));
  }
}

Result<Response> Client::head(Waiter& waiter) {
  Response response;
  STOKER_ASSIGN(std::string_view status_line, line(waiter));
  if (status_line.size() < 12 || status_line.substr(0, 7) != "HTTP/1.") return invalid("not an HTTP answer");
  std::string_view digits = status_line.substr(9, 3);
  if (std::from_chars(digits.data(), digits.data() + 3, response.status).ec != std::errc{})
    return invalid("not an HTTP status");
  for (int count = 0;; ++count) {
    if (count > 100) return invalid("the server sent more than 100 header lines");
    STOKER_ASSIGN(std::string_view text, line(waiter));
    if (text.empty()) return response;
    size_t colon = text.find(':');
    if (colon == std::string_view::npos) return invalid("the server sent a header without a colon");
    response.headers.emplace_back(lower(text.substr(0, colon)), std::string(trim(text.substr(colon + 1))));
  }
}

Status Client::body(const Response& response, bool to_the_end, Waiter& waiter,
                    const std::function<bool(std::string_view)>& on_bytes) {
  auto take = [&](uint64_t left) -> Status {
    while (left > 0) {
      if (at_ == buffer_.size()) STOKER_TRY(fill(waiter));
      size_t n = static_cast<size_t>(std::min<uint64_t>(left, buffer_.size() - at_));
      std::string_view piece(buffer_.data() + at_, n);
      at_ += n;
      left -= n;
      if (!on_bytes(piece)) return Error{Code::kCancelled, "stopped reading", {}};
    }
    return ok();
  };
  if (header_of(response, "transfer-encoding") == "chunked") {
    while (true) {
      STOKER_ASSIGN(std::string_view size_line, line(waiter));
      uint64_t size = 0;
      auto [end, ec] = std::from_chars(size_line.data(), size_line.data() + size_line.size(), size, 16);
      if (ec != std::errc{} || end == size_line.data()) return invalid("the server sent a broken chunk");
      if (size == 0) break;
      STOKER_TRY(take(size));
      STOKER_ASSIGN(std::string_view after, line(waiter));
      if (!after.empty()) return invalid("the server sent a broken chunk");
    }
    while (true) {
      STOKER_ASSIGN(std::string_view trailer, line(waiter));
      if (trailer.empty()) return ok();
    }
  }
  std::string_view length = header_of(response, "content-length");
  if (!length.empty()) {
    uint64_t size = 0;
    if (std::from_chars(length.data(), length.data() + length.size(), size).ec != std::errc{})
      return invalid("the server sent a broken content-length");
    return take(size);
  }
  if (!to_the_end || response.status == 204) return ok();
  return invalid("the server sent a body of unknown length");
}

Status Client::exchange(std::string_view method, std::string_view target, std::string_view body,
                        Waiter& waiter, Response& response) {
  std::string text;
  text.reserve(256 + body.size());
  text.append(method).append(" ").append(target).append(" HTTP/1.1\r\nhost: stoker\r\n");
  if (!body.empty()) text.append("content-type: application/json\r\n");
  if (!body.empty() || method != "GET")
    text.append("content-length: ").append(std::to_string(body.size())).append("\r\n");
  text.append("\r\n").append(body);
  if (fd_) {
    // A kept connection that has something to read now has been closed by the server (or is out of step).
    pollfd probe{fd_.get(), POLLIN, 0};
    if (::poll(&probe, 1, 0) != 0) fd_.reset();
  }
  if (!fd_) STOKER_TRY(connect());
  STOKER_TRY(write(text, waiter));
  STOKER_ASSIGN(response, head(waiter));
  return ok();
}

Result<Response> Client::send(std::string_view method, std::string_view target, std::string_view body_text,
                              Milliseconds timeout) {
  Waiter waiter;
  waiter.has_deadline = true;
  waiter.deadline = SteadyClock::now() + timeout;
  waiter.wake_fd = wake_fd_;
  waiter.on_wake = &on_wake_;
  Response response;
  Status status = exchange(method, target, body_text, waiter, response);
  if (status.ok()) {
    bool too_large = false;
    status = body(response, true, waiter, [&](std::string_view piece) {
      too_large = response.body.size() + piece.size() > kMaxBody;
      if (!too_large) response.body.append(piece);
      return !too_large;
    });
    if (too_large) status = invalid("the server's answer is larger than 256 MiB");
  }
  if (!status.ok()) {
    fd_.reset();
    return std::move(status).error();
  }
  if (header_of(response, "connection") == "close") fd_.reset();
  return response;
}

Result<Json> Client::call(std::string_view method, std::string_view target, const Json& body_json,
                          Milliseconds timeout) {
  std::string text = body_json.is_null() ? std::string() : body_json.dump();
  STOKER_ASSIGN(Response response, send(method, target, text, timeout));
  if (response.status >= 400) return error_of(response.status, response.body);
  if (response.body.empty()) return Json();
  return Json::parse(response.body);
}

Status Client::stream(std::string_view target, const std::function<bool(std::string_view)>& on_bytes) {
  Waiter waiter;
  waiter.wake_fd = wake_fd_;
  waiter.on_wake = &on_wake_;
  Response response;
  Status status = exchange("GET", target, {}, waiter, response);
  if (status.ok() && response.status >= 400) {
    std::string text;
    status = body(response, true, waiter, [&](std::string_view piece) {
      text.append(piece);
      return text.size() < kMaxLine;
    });
    if (status.ok()) return error_of(response.status, text);
  } else if (status.ok()) {
    status = body(response, true, waiter, on_bytes);
  }
  if (!status.ok()) fd_.reset();
  return status;
}

}  // namespace stoker::http
