// SPDX-License-Identifier: Apache-2.0
#include "feed/dispatcher.h"

#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"

namespace stoker::feed {
namespace {
constexpr int64_t kTickNs = 500'000'000;
constexpr size_t kMaxPeers = 4096;
}  // namespace

class Dispatcher::Peer : public wire::LinkHandler, public std::enable_shared_from_this<Peer> {
 public:
  explicit Peer(Dispatcher& owner)
      : handshake(Handshake::listening(owner.options_.token, 0)), owner_(owner) {}
  Status start(UniqueFd socket) {
    STOKER_ASSIGN(link, wire::Link::start(*owner_.loop_, std::move(socket), wire::LinkKind::kTcp, *this));
    return ok();
  }

  Handshake handshake;
  std::shared_ptr<wire::Link> link;
  std::string address;  // of a worker
  bool subscriber = false;
  int64_t since_ns = monotonic_ns();

 private:
  Result<std::vector<wire::Piece>> on_header(wire::Link&, const wire::Header& header) override {
    if (!handshake.through()) {
      STOKER_TRY(handshake.check_header(header));
    } else if (header.length > kMaxJson) {
      return invalid("a message of " + std::to_string(header.length) + " bytes");
    }
    return std::vector<wire::Piece>{};
  }

  Status on_frame(wire::Link&, const wire::Header& header, std::span<const uint64_t>) override {
    if (!handshake.through()) return handshake.on_frame(*link, header);
    auto type = static_cast<MessageType>(header.type);
    if (type == MessageType::kPing) {
      link->send(header_of(MessageType::kPong));
    } else if (type == MessageType::kRegister && handshake.role() == Role::kWorker) {
      STOKER_ASSIGN(Json about, Json::parse(as_text(link->payload())));
      STOKER_ASSIGN(std::string said, about.need_string("address"));
      STOKER_ASSIGN(wire::Address parsed, wire::parse_address(said));
      owner_.registered(*this, std::move(about));
    } else if (type == MessageType::kSubscribe && handshake.role() == Role::kClient) {
      owner_.subscribed(*this);
    } else {
      return invalid("a message of type " + std::to_string(header.type));
    }
    return ok();
  }

  void on_closed(wire::Link&, const Error& error) override {
    if (error.code != Code::kUnavailable)
      log_line(LogLevel::kWarn, "feed-dispatcher", "a peer was let go: " + error.message);
    owner_.over(*this);
  }

  Dispatcher& owner_;
};

Result<std::unique_ptr<Dispatcher>> Dispatcher::open(DispatcherOptions options) {
  if (options.token.empty()) return invalid("a dispatcher needs the job's token");
  std::unique_ptr<Dispatcher> dispatcher(new Dispatcher(std::move(options)));
  STOKER_TRY(dispatcher->start());
  return dispatcher;
}

Dispatcher::~Dispatcher() {
  for (auto& peer : peers_) peer->link->close();
}

Status Dispatcher::start() {
  STOKER_ASSIGN(loop_, wire::Loop::make());
  STOKER_ASSIGN(wire::Address address, wire::parse_address(options_.listen));
  STOKER_ASSIGN(UniqueFd listener, wire::listen_tcp(address));
  STOKER_ASSIGN(wire::Address bound, wire::local_address(listener.get()));
  address_ = bound.text();
  acceptor_ = std::make_unique<wire::Acceptor>(*loop_, "feed-dispatcher",
                                               [this](UniqueFd socket) { accept(std::move(socket)); });
  STOKER_TRY(acceptor_->start(std::move(listener)));
  loop_->post([this] { tick(); });
  return ok();
}

void Dispatcher::run() { loop_->run(); }
void Dispatcher::stop() { loop_->stop(); }

void Dispatcher::accept(UniqueFd socket) {
  if (peers_.size() >= kMaxPeers) return;
  auto peer = std::make_shared<Peer>(*this);
  if (peer->start(std::move(socket)).ok()) peers_.insert(peer);
}

void Dispatcher::registered(Peer& peer, Json about) {
  peer.address = about["address"].as_string();
  bool is_new = members_.count(peer.address) == 0;
  members_[peer.address] = {monotonic_ns(), std::move(about)};
  if (is_new) publish();
}

void Dispatcher::subscribed(Peer& peer) {
  peer.subscriber = true;
  wire::Header header = header_of(MessageType::kView);
  header.a = view_;
  peer.link->send(header, view_payload());
}

void Dispatcher::over(Peer& peer) {
  auto self = peer.shared_from_this();
  peers_.erase(self);
  if (!peer.address.empty() && members_.erase(peer.address)) publish();
}

// A worker that is silent is not offered any more; who is connected to it decides for himself.
void Dispatcher::tick() {
  int64_t now = monotonic_ns();
  if (std::erase_if(members_, [&](const auto& entry) { return now - entry.second.heard_ns > kSilenceNs; }))
    publish();
  for (auto& peer : std::set(peers_)) {
    bool late = !peer->handshake.through() && now - peer->since_ns > kHandshakeNs;
    bool deaf = peer->link->unsent() > kMaxJson * 16;
    if (!late && !deaf) continue;
    peer->link->close();
    over(*peer);
  }
  loop_->at(now + kTickNs, [this] { tick(); });
}

void Dispatcher::publish() {
  ++view_;
  for (auto& peer : peers_)
    if (peer->subscriber) subscribed(*peer);
}

std::vector<uint8_t> Dispatcher::view_payload() const {
  Json workers = Json::Array{};
  for (auto& [address, member] : members_) {
    Json one;
    one.set("address", address).set("threads", member.about["threads"]).set("load", member.about["load"]);
    workers.push(one);
  }
  Json view;
  view.set("workers", workers);
  std::string text = view.dump();
  return {text.begin(), text.end()};
}

}  // namespace stoker::feed
