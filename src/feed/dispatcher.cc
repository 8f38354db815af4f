// SPDX-License-Identifier: Apache-2.0
#include "feed/dispatcher.h"

#include <sys/epoll.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "feed/reports.h"

namespace stoker::feed {
namespace {
constexpr size_t kMaxPeers = 4096;
constexpr int64_t kTellSizingNs = 5'000'000'000;  // to clients, while no other number is wanted

void say(LogLevel level, const std::string& what) { log_line(level, "feed-dispatcher", what); }
}  // namespace

class Dispatcher::Peer : public wire::LinkHandler, public std::enable_shared_from_this<Peer> {
 public:
  Peer(Dispatcher& owner, Membership::PeerId id)
      : id(id), handshake(Handshake::listening(owner.options_.token, 0)), owner_(owner) {}
  Status start(UniqueFd socket) {
    STOKER_ASSIGN(link, wire::Link::start(*owner_.loop_, std::move(socket), wire::LinkKind::kTcp, *this));
    return ok();
  }

  const Membership::PeerId id;
  Handshake handshake;
  std::shared_ptr<wire::Link> link;

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
    Membership& membership = owner_.membership_;
    int64_t now = monotonic_ns();
    if (!handshake.through()) {
      STOKER_TRY(handshake.on_frame(*link, header));
      if (handshake.through()) membership.proven(id, now);
      return ok();
    }
    auto type = static_cast<MessageType>(header.type);
    if (type == MessageType::kPing) {
      membership.heard(id, now);
      link->send(header_of(MessageType::kPong));
    } else if (type == MessageType::kRegister && handshake.role() == Role::kWorker) {
      STOKER_ASSIGN(Json about, Json::parse(as_text(link->payload())));
      STOKER_ASSIGN(WorkerReport report, WorkerReport::from_json(about));
      address_ = report.worker.address;
      owner_.sized_.insert(address_);
      owner_.ended_.erase(address_);
      owner_.sizing_.told(report.worker.address, report.figures, now);
      owner_.apply(membership.registered(id, std::move(report.worker), now));
    } else if (type == MessageType::kGoodbye && handshake.role() == Role::kWorker) {
      if (!address_.empty()) owner_.ended_.insert(address_);
    } else if (type == MessageType::kSubscribe && handshake.role() == Role::kClient) {
      owner_.apply(membership.subscribed(id, now));
      if (link->payload().empty()) return ok();
      STOKER_ASSIGN(Json use, Json::parse(as_text(link->payload())));
      owner_.sizing_.told(id, consumer_from_json(use), now);
    } else {
      return invalid("a message of type " + std::to_string(header.type));
    }
    return ok();
  }

  void on_closed(wire::Link&, const Error& error) override {
    if (error.code != Code::kUnavailable)
      log_line(LogLevel::kWarn, "feed-dispatcher", "a peer was let go: " + error.message);
    owner_.over(id);
  }

  Dispatcher& owner_;
  std::string address_;  // that a worker registered
};

Dispatcher::Dispatcher(DispatcherOptions options)
    : options_(std::move(options)), membership_(monotonic_ns()), sizing_(monotonic_ns()) {}

Result<std::unique_ptr<Dispatcher>> Dispatcher::open(DispatcherOptions options) {
  if (options.token.empty()) return invalid("a dispatcher needs the job's token");
  std::unique_ptr<Dispatcher> dispatcher(new Dispatcher(std::move(options)));
  STOKER_TRY(dispatcher->start());
  return dispatcher;
}

Dispatcher::~Dispatcher() {
  for (auto& [id, peer] : peers_) peer->link->close();
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
  auto peer = std::make_shared<Peer>(*this, next_peer_++);
  if (!peer->start(std::move(socket)).ok()) return;
  peers_.emplace(peer->id, peer);
  membership_.connected(peer->id, monotonic_ns());
}

void Dispatcher::apply(const Membership::Actions& actions) {
  for (Membership::PeerId id : actions.let_go) {
    auto found = peers_.find(id);
    if (found == peers_.end()) continue;
    found->second->link->close();
    peers_.erase(found);
    sizing_.consumer_gone(id);
  }
  tell_view(actions.tell);
}

void Dispatcher::tell_view(const std::vector<Membership::PeerId>& peers) {
  if (peers.empty()) return;
  wire::Header header = header_of(MessageType::kView);
  header.a = membership_.view();
  const std::vector<uint8_t> payload = view_payload();
  for (Membership::PeerId id : peers)
    if (auto found = peers_.find(id); found != peers_.end()) found->second->link->send(header, payload);
}

void Dispatcher::over(Membership::PeerId id) {
  auto found = peers_.find(id);
  if (found == peers_.end()) return;
  auto self = std::move(found->second);  // we may be in its call
  peers_.erase(found);
  sizing_.consumer_gone(id);
  apply(membership_.gone(id));
}

// A worker that is silent is not offered any more; who is connected to it decides for himself.
void Dispatcher::tick() {
  int64_t now = monotonic_ns();
  apply(membership_.tick(now));
  for (auto& [id, peer] : std::map(peers_)) {
    if (peer->link->unsent() <= kMaxJson * 16) continue;
    peer->link->close();
    over(id);
  }
  size(now);
  loop_->at(now + Membership::kTickNs, [this] { tick(); });
}

void Dispatcher::size(int64_t now) {
  std::set<std::string> there;
  for (const Membership::Worker& worker : membership_.workers()) {
    there.insert(worker.address);
    if (sized_.count(worker.address) == 0) say(LogLevel::kInfo, "worker " + worker.address + " is there");
  }
  for (const std::string& address : sized_) {
    if (there.count(address) != 0) continue;
    sizing_.worker_gone(address, now);
    const bool in_order = ended_.erase(address) != 0;
    say(in_order ? LogLevel::kInfo : LogLevel::kWarn,
        "worker " + address +
            (in_order ? " has ended as it was told to; " : " is gone: it has ended or was silent; ") +
            std::to_string(there.size()) + " are left");
  }
  sized_ = std::move(there);
  const bool changed = sizing_.decide(now);
  if (changed) write_sizing();
  if (!changed && now - told_sizing_ns_ < kTellSizingNs) return;
  told_sizing_ns_ = now;
  if (!sizing_.advice().empty()) tell_view(membership_.subscribers());
}

void Dispatcher::write_sizing() {
  for (const Sizing::Advice& advice : sizing_.advice())
    log_line(LogLevel::kInfo, "feed-dispatcher",
             (advice.group.empty() ? "" : advice.group + ": ") + std::to_string(advice.wanted) +
                 " workers wanted, " + std::to_string(advice.workers) + " there: " + advice.reason);
  if (options_.sizing_file.empty()) return;
  const std::string text = to_json(sizing_.advice()).dump();
  if (auto written = write_file_atomic(options_.sizing_file, as_bytes(text)); !written.ok())
    log_line(LogLevel::kWarn, "feed-dispatcher", "sizing: " + written.error().message);
}

std::vector<uint8_t> Dispatcher::view_payload() const {
  Json workers = Json::Array{};
  for (const Membership::Worker& worker : membership_.workers()) {
    Json one;
    one.set("address", worker.address).set("threads", worker.threads).set("load", worker.load);
    workers.push(one);
  }
  Json view;
  view.set("workers", workers).set("sizing", to_json(sizing_.advice()));
  std::string text = view.dump();
  return {text.begin(), text.end()};
}

}  // namespace stoker::feed
