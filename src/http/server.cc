// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <deque>
#include <optional>
#include <set>

#include "base/log.h"
#include "http/loop_impl.h"

namespace stoker::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using ErrorCode = boost::system::error_code;
using Stream = beast::basic_stream<asio::generic::stream_protocol>;

namespace {

asio::redirect_error_t<asio::use_awaitable_t<>> into(ErrorCode& error) {
  return asio::redirect_error(asio::use_awaitable, error);
}

// Asio leaves its sockets open across exec; a child that holds them keeps a dead server's clients waiting.
void close_on_exec(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

class Connection;

class ExchangeImpl : public Exchange {
 public:
  ExchangeImpl(asio::io_context& io, Request request) : request_(std::move(request)), changed_(io) {
    changed_.expires_at(std::chrono::steady_clock::time_point::max());
  }
  const Request& request() const override { return request_; }
  void respond(Response response) override {
    if (gone_ || answered_) return;
    answered_ = true;
    response_ = std::move(response);
    changed_.cancel();
  }
  void begin_stream(int status, const std::string& content_type) override {
    if (gone_ || answered_) return;
    answered_ = streaming_ = true;
    response_.status = status;
    response_.headers = {{"content-type", content_type}};
    changed_.cancel();
  }
  void write(std::string bytes, std::function<void(bool)> then) override {
    pieces_.push_back({std::move(bytes), std::move(then)});
    if (gone_) return fail_pieces();
    changed_.cancel();
  }
  void end_stream() override {
    ended_ = true;
    changed_.cancel();
  }
  bool gone() const override { return gone_; }
  void when_gone(std::function<void()> callback) override { when_gone_ = std::move(callback); }

  void leave() {
    if (gone_) return;
    gone_ = true;
    fail_pieces();
    auto callback = std::move(when_gone_);
    when_gone_ = nullptr;
    changed_.cancel();
    if (callback) callback();
  }
  void complete() { when_gone_ = nullptr; }
  asio::awaitable<void> wait() {
    ErrorCode ignored;
    co_await changed_.async_wait(into(ignored));
  }

 private:
  friend class Connection;
  struct Piece {
    std::string bytes;
    std::function<void(bool)> then;
  };
  void fail_pieces() {
    auto pieces = std::move(pieces_);
    pieces_.clear();
    for (Piece& piece : pieces)
      if (piece.then) piece.then(false);
  }

  Request request_;
  asio::steady_timer changed_;  // never expires; cancelling it wakes the connection
  Response response_;
  std::deque<Piece> pieces_;
  std::function<void()> when_gone_;
  bool answered_ = false, streaming_ = false, ended_ = false, gone_ = false;
};

}  // namespace

struct Server::Impl : std::enable_shared_from_this<Server::Impl> {
  Impl(Loop& loop_in, Handler handler_in, Limits limits_in, Admit admit_in)
      : io(loop_in.impl().io),
        handler(std::move(handler_in)),
        limits(limits_in),
        admit(std::move(admit_in)),
        acceptor(io) {}
  asio::io_context& io;
  Handler handler;
  Limits limits;
  Admit admit;
  asio::local::stream_protocol::acceptor acceptor;
  std::set<Connection*> live;
  std::string path;
  bool closed = false;

  asio::awaitable<void> accept();
};

namespace {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Server::Impl> server, asio::generic::stream_protocol::socket socket)
      : server_(std::move(server)), stream_(std::move(socket)) {
    ucred who{};
    socklen_t size = sizeof who;
    const int fd = stream_.socket().native_handle();
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0) peer_uid_ = static_cast<int>(who.uid);
    if (server_->admit)
      if (Status admitted = server_->admit(fd); !admitted.ok()) refused_ = std::move(admitted).error();
    server_->live.insert(this);
  }
  ~Connection() { server_->live.erase(this); }

  asio::awaitable<void> serve(std::shared_ptr<Connection> self) {
    (void)self;  // keeps this alive while the coroutine runs
    while (!server_->closed) {
      Request request;
      bool keep = false;
      if (!co_await read(request, keep)) break;
      exchange_ = std::make_shared<ExchangeImpl>(server_->io, std::move(request));
      watch_peer();
      server_->handler(exchange_);
      bool written = co_await answer(keep);
      exchange_->complete();
      if (!written) exchange_->leave();
      exchange_.reset();
      if (!written || !keep) break;
    }
    close();
  }

  void close() {
    ErrorCode ignored;
    stream_.socket().shutdown(asio::socket_base::shutdown_both, ignored);
    stream_.close();
    if (exchange_) exchange_->leave();
  }

 private:
  asio::awaitable<bool> read(Request& request, bool& keep) {
    beast::http::request_parser<beast::http::string_body> parser;
    parser.header_limit(static_cast<uint32_t>(server_->limits.header_bytes));
    parser.body_limit(server_->limits.body_bytes);
    stream_.expires_after(server_->limits.read);
    ErrorCode error;
    co_await beast::http::async_read(stream_, buffer_, parser, into(error));
    stream_.expires_never();
    if (error) {
      if (error == beast::http::error::body_limit || error == beast::http::error::header_limit ||
          (error.category() == beast::http::make_error_code(beast::http::error::bad_method).category() &&
           error != beast::http::error::end_of_stream && error != beast::http::error::partial_message)) {
        Response response = error_response(invalid("the request is not acceptable: " + error.message()));
        co_await send(response, false);
      }
      co_return false;
    }
    auto& message = parser.get();
    keep = message.keep_alive() && !refused_;
    request.method = std::string(message.method_string());
    split_target(std::string_view(message.target().data(), message.target().size()), request.path,
                 request.query);
    for (const auto& field : message) {
      std::string name(field.name_string());
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request.headers.emplace_back(std::move(name), std::string(field.value()));
    }
    request.body = std::move(message.body());
    request.peer_uid = peer_uid_;
    request.refused = refused_;
    co_return true;
  }

  // Notices that the peer closes while its answer is being waited for.
  void watch_peer() {
    if (buffer_.size() > 0) return;
    std::weak_ptr<Connection> weak = weak_from_this();
    std::weak_ptr<ExchangeImpl> exchange = exchange_;
    stream_.socket().async_wait(asio::socket_base::wait_read, [weak, exchange](const ErrorCode& error) {
      auto self = weak.lock();
      auto open = exchange.lock();
      if (error || !self || !open || self->exchange_ != open) return;
      char byte;
      ssize_t n = ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) open->leave();
    });
  }

  asio::awaitable<bool> answer(bool keep) {
    while (!exchange_->answered_ && !exchange_->gone_) co_await exchange_->wait();
    if (exchange_->gone_) co_return false;
    if (!exchange_->streaming_) co_return co_await send(exchange_->response_, keep);
    beast::http::response<beast::http::empty_body> head{
        static_cast<beast::http::status>(exchange_->response_.status), 11};
    for (const auto& [name, value] : exchange_->response_.headers) head.set(name, value);
    head.chunked(true);
    head.keep_alive(keep);
    beast::http::response_serializer<beast::http::empty_body> serializer{head};
    ErrorCode error;
    stream_.expires_after(server_->limits.write);
    co_await beast::http::async_write_header(stream_, serializer, into(error));
    while (!error && !exchange_->gone_) {
      if (exchange_->pieces_.empty()) {
        if (exchange_->ended_) break;
        stream_.expires_never();
        co_await exchange_->wait();
        continue;
      }
      ExchangeImpl::Piece piece = std::move(exchange_->pieces_.front());
      exchange_->pieces_.pop_front();
      if (!piece.bytes.empty()) {
        stream_.expires_after(server_->limits.write);
        co_await asio::async_write(stream_, beast::http::make_chunk(asio::buffer(piece.bytes)), into(error));
      }
      if (piece.then) piece.then(!error);
    }
    if (error || exchange_->gone_) co_return false;
    stream_.expires_after(server_->limits.write);
    co_await asio::async_write(stream_, beast::http::make_chunk_last(), into(error));
    stream_.expires_never();
    co_return !error;
  }

  asio::awaitable<bool> send(Response& response, bool keep) {
    beast::http::response<beast::http::string_body> message{static_cast<beast::http::status>(response.status),
                                                            11};
    for (const auto& [name, value] : response.headers) message.set(name, value);
    message.body() = std::move(response.body);
    message.keep_alive(keep);
    message.prepare_payload();
    ErrorCode error;
    stream_.expires_after(server_->limits.write);
    co_await beast::http::async_write(stream_, message, into(error));
    stream_.expires_never();
    co_return !error;
  }

  std::shared_ptr<Server::Impl> server_;
  Stream stream_;
  beast::flat_buffer buffer_;
  std::shared_ptr<ExchangeImpl> exchange_;
  int peer_uid_ = -1;
  std::optional<Error> refused_;
};

}  // namespace

asio::awaitable<void> Server::Impl::accept() {
  auto self = shared_from_this();
  while (!closed) {
    ErrorCode error;
    asio::local::stream_protocol::socket socket = co_await acceptor.async_accept(into(error));
    if (closed || error == asio::error::operation_aborted) co_return;
    if (error) {  // out of descriptors, most likely: wait until some are free rather than spin
      log_line(LogLevel::kWarn, "http", "cannot accept a connection: " + error.message());
      asio::steady_timer pause(io, std::chrono::milliseconds(100));
      co_await pause.async_wait(into(error));
      continue;
    }
    close_on_exec(socket.native_handle());
    if (live.size() >= limits.connections) continue;  // closes it
    auto connection = std::make_shared<Connection>(shared_from_this(),
                                                   asio::generic::stream_protocol::socket(std::move(socket)));
    asio::co_spawn(io, connection->serve(connection), asio::detached);
  }
}

Server::Server(Loop& loop, Handler handler, Limits limits, Admit admit)
    : impl_(std::make_shared<Impl>(loop, std::move(handler), limits, std::move(admit))) {}

Server::~Server() {
  impl_->closed = true;
  ErrorCode ignored;
  impl_->acceptor.close(ignored);
  if (!impl_->path.empty()) ::unlink(impl_->path.c_str());
  for (Connection* connection : std::set<Connection*>(impl_->live)) connection->close();
}

size_t Server::connections() const { return impl_->live.size(); }

Status Server::listen_unix(const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un::sun_path))
    return invalid("the socket path is longer than 107 bytes: " + path +
                   "; set STOKER_HOME to a shorter folder");
  ::unlink(path.c_str());
  ErrorCode error;
  impl_->acceptor.open(asio::local::stream_protocol(), error);
  if (!error) close_on_exec(impl_->acceptor.native_handle());
  // Only the mode that bind() gives it protects the socket from its first moment.
  mode_t before = ::umask(0177);
  if (!error) impl_->acceptor.bind(asio::local::stream_protocol::endpoint(path), error);
  ::umask(before);
  if (!error) impl_->acceptor.listen(256, error);
  if (error) return internal("listening on " + path + ": " + error.message());
  impl_->path = path;
  asio::co_spawn(impl_->io, impl_->accept(), asio::detached);
  return ok();
}

}  // namespace stoker::http
