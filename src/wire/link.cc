// SPDX-License-Identifier: Apache-2.0
#include "wire/link.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace stoker::wire {
namespace {
// Both measured (facts on the wire path): larger brings nothing, smaller costs calls.
constexpr size_t kSendBytes = 4 << 20;
constexpr size_t kReceiveBytes = 512 << 10;
constexpr size_t kMaxVectors = 256;
constexpr size_t kTurnBytes = 8 << 20;  // then the loop looks at others
constexpr size_t kTurnFrames = 64;
constexpr size_t kScrapBytes = 256 << 10;
}  // namespace

Link::Link(Loop& loop, UniqueFd socket, LinkKind kind, LinkHandler& handler, bool connecting)
    : loop_(loop), kind_(kind), handler_(handler), socket_(std::move(socket)), connecting_(connecting) {}

Link::~Link() { close(); }

Result<std::shared_ptr<Link>> Link::start(Loop& loop, UniqueFd socket, LinkKind kind, LinkHandler& handler,
                                          bool connecting) {
  std::shared_ptr<Link> link(new Link(loop, std::move(socket), kind, handler, connecting));
  link->armed_ = EPOLLIN | (connecting ? uint32_t{EPOLLOUT} : 0);
  link->last_heard_ns_ = monotonic_ns();
  std::weak_ptr<Link> weak = link;
  STOKER_TRY(loop.watch(link->socket_.get(), link->armed_, [weak](uint32_t events) {
    if (auto link = weak.lock()) link->on_events(events);
  }));
  return link;
}

// ---- sending

void Link::send(Header header, std::vector<uint8_t> small, std::vector<ByteView> bulk,
                std::shared_ptr<const void> keep, UniqueFd descriptor) {
  Out out;
  header.length = small.size();
  for (ByteView view : bulk) header.length += view.size();
  if (kind_ == LinkKind::kTcp && bulk.empty()) header.hash = block_hash(small);
  out.header = encode(header, kind_ == LinkKind::kTcp);
  out.total = kHeaderSize + header.length;
  out.small = std::move(small);
  out.bulk = std::move(bulk);
  out.keep = std::move(keep);
  out.descriptor = std::move(descriptor);

  std::lock_guard lock(out_mutex_);
  if (broken_ || !socket_) return;
  unsent_ += out.total;
  out_.push_back(std::move(out));
  if (connecting_ || out_.size() > 1) return;          // somebody's flush or the loop will get to it
  if (!flush_locked(kTurnBytes).ok()) broken_ = true;  // the loop sees the hang-up and tells
  arm_locked();
}

// At most about so many bytes: while the peer takes them as fast as others add more, it would not end.
Status Link::flush_locked(size_t most) {
  for (size_t done = 0; !out_.empty() && done < most;) {
    iovec vectors[kMaxVectors];
    size_t count = 0, bytes = 0, frames = 0;
    uint64_t skip = out_sent_;
    auto add = [&](const uint8_t* at, size_t size) {
      size_t skipped = std::min<uint64_t>(skip, size);
      skip -= skipped;
      if (size == skipped || count == kMaxVectors || bytes >= kSendBytes) return;
      vectors[count++] = {const_cast<uint8_t*>(at + skipped), size - skipped};
      bytes += size - skipped;
    };
    int descriptor = -1;
    for (Out& out : out_) {
      if (frames > 0 && out.descriptor) break;  // a descriptor goes with the first byte of its own frame
      if (count == kMaxVectors || bytes >= kSendBytes) break;
      if (frames == 0 && out.descriptor && out_sent_ == 0) descriptor = out.descriptor.get();
      add(out.header.data(), out.header.size());
      add(out.small.data(), out.small.size());
      for (ByteView view : out.bulk) add(view.data(), view.size());
      ++frames;
      if (descriptor >= 0) break;
    }
    msghdr message{};
    message.msg_iov = vectors;
    message.msg_iovlen = count;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (descriptor >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
    }
    ssize_t n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return ok();
      return errno_error("sending", errno);
    }
    done += static_cast<size_t>(n);
    unsent_ -= static_cast<uint64_t>(n);
    sent_bytes_ += static_cast<uint64_t>(n);
    out_sent_ += static_cast<uint64_t>(n);
    if (descriptor >= 0 && n > 0) out_.front().descriptor.reset();
    while (!out_.empty() && out_sent_ >= out_.front().total) {
      out_sent_ -= out_.front().total;
      out_.pop_front();
    }
  }
  return ok();
}

void Link::arm_locked() {
  if (!socket_) return;
  uint32_t want = EPOLLIN | (out_.empty() && !connecting_ ? 0 : uint32_t{EPOLLOUT});
  if (want == armed_) return;
  armed_ = want;
  loop_.change(socket_.get(), want);
}

// ---- receiving

void Link::on_events(uint32_t events) {
  auto self = shared_from_this();  // a handler may drop the last other owner
  if (events & (EPOLLOUT | EPOLLERR)) {
    Status status = [&]() -> Status {
      std::lock_guard lock(out_mutex_);
      if (connecting_) {
        int problem = 0;
        socklen_t size = sizeof problem;
        getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
        if (problem != 0) return errno_error("connecting", problem);
        if (!(events & EPOLLOUT)) return ok();
        connecting_ = false;
      }
      if (broken_) return unavailable("the peer closed the connection");
      auto flushed = flush_locked(kTurnBytes);
      arm_locked();
      return flushed;
    }();
    if (!status.ok()) return fail(status.error());
  }
  if (closed_ || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  if (auto status = receive(); !status.ok()) fail(status.error());
}

Result<size_t> Link::receive_some(std::span<iovec> into) {
  msghdr message{};
  message.msg_iov = into.data();
  message.msg_iovlen = into.size();
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)];
  if (kind_ == LinkKind::kLocal) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  while (true) {
    ssize_t n = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
      return errno_error("receiving", errno);
    }
    if (n == 0) {
      ended_ = header_got_ == 0;
      return unavailable(ended_ ? "the peer closed the connection"
                                : "the peer closed the connection in the middle of a message");
    }
    for (cmsghdr* part = kind_ == LinkKind::kLocal ? CMSG_FIRSTHDR(&message) : nullptr; part;
         part = CMSG_NXTHDR(&message, part)) {
      if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
      for (size_t i = 0; i < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
        int descriptor;
        std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof descriptor);
        descriptors_.emplace_back(descriptor);
      }
    }
    received_bytes_ += static_cast<uint64_t>(n);
    return static_cast<size_t>(n);
  }
}

Status Link::receive() {
  last_heard_ns_ = monotonic_ns();
  set_starved(false);
  size_t turn = 0;
  for (size_t frames = 0; turn < kTurnBytes && frames < kTurnFrames && !closed_;) {
    if (header_got_ < kHeaderSize) {
      iovec into{header_bytes_.data() + header_got_, kHeaderSize - header_got_};
      STOKER_ASSIGN(size_t n, receive_some({&into, 1}));
      if (n == 0) return ok();
      turn += n;
      ++frames;
      header_got_ += n;
      if (header_got_ < kHeaderSize) continue;
      STOKER_TRY(begin_frame());
      continue;
    }
    iovec vectors[kMaxVectors];
    size_t count = 0, bytes = 0;
    for (size_t i = piece_; i < pieces_.size() && count < kMaxVectors && bytes < kReceiveBytes; ++i) {
      uint64_t done = i == piece_ ? piece_got_ : 0;
      uint8_t* at = pieces_[i].at ? pieces_[i].at + done : scrap_.data();
      size_t size = static_cast<size_t>(std::min<uint64_t>(pieces_[i].size - done, kReceiveBytes - bytes));
      if (!pieces_[i].at) size = std::min(size, scrap_.size());
      if (count > 0 && static_cast<uint8_t*>(vectors[count - 1].iov_base) + vectors[count - 1].iov_len == at)
        vectors[count - 1].iov_len += size;
      else
        vectors[count++] = {at, size};
      bytes += size;
      if (size < pieces_[i].size - done) break;
    }
    STOKER_ASSIGN(size_t n, receive_some({vectors, count}));
    if (n == 0) {
      set_starved(true);
      return ok();
    }
    turn += n;
    STOKER_TRY(advance(n));
  }
  return ok();
}

Status Link::begin_frame() {
  STOKER_ASSIGN(header_, decode(header_bytes_, kind_ == LinkKind::kTcp));
  STOKER_ASSIGN(pieces_, handler_.on_header(*this, header_));
  if (closed_) return ok();
  own_.clear();
  if (pieces_.empty() && header_.length > 0) {
    own_.resize(header_.length);
    pieces_.push_back({own_.data(), header_.length, kind_ == LinkKind::kTcp});
  }
  uint64_t sum = 0;
  for (const Piece& piece : pieces_) {
    sum += piece.size;
    if (!piece.at && scrap_.empty()) scrap_.resize(kScrapBytes);
  }
  CHECK(sum == header_.length);
  hashes_.assign(pieces_.size(), 0);
  piece_ = 0;
  piece_got_ = piece_hashed_ = 0;
  piece_hash_ = {};
  return advance(0);
}

// Accounts for bytes that have come, and hashes them by pieces while they are in cache.
Status Link::advance(size_t bytes) {
  while (piece_ < pieces_.size()) {
    const Piece& piece = pieces_[piece_];
    uint64_t take = std::min<uint64_t>(bytes, piece.size - piece_got_);
    piece_got_ += take;
    bytes -= take;
    if (piece.hash && piece.at) {
      while (piece_got_ - piece_hashed_ >= kHashPiece) {
        piece_hash_.add({piece.at + piece_hashed_, kHashPiece});
        piece_hashed_ += kHashPiece;
      }
    }
    if (piece_got_ < piece.size) return ok();
    if (piece.hash && piece.at) {
      if (piece_hashed_ == 0) {
        hashes_[piece_] = block_hash({piece.at, piece.size});
      } else {
        piece_hash_.add({piece.at + piece_hashed_, piece.size - piece_hashed_});
        hashes_[piece_] = piece_hash_.finish();
      }
    }
    ++piece_;
    piece_got_ = piece_hashed_ = 0;
    piece_hash_ = {};
  }
  return end_frame();
}

Status Link::end_frame() {
  header_got_ = 0;
  if (kind_ == LinkKind::kTcp && !own_.empty() && hashes_.size() == 1 && hashes_[0] != header_.hash)
    return Error{Code::kData, "a frame was damaged on its way", {}};
  STOKER_TRY(handler_.on_frame(*this, header_, hashes_));
  own_.clear();
  if (own_.capacity() > (1 << 20)) own_.shrink_to_fit();
  return ok();
}

void Link::read_now() {
  if (!closed_) on_events(EPOLLIN);
}

UniqueFd Link::take_descriptor() {
  if (descriptors_.empty()) return {};
  UniqueFd first = std::move(descriptors_.front());
  descriptors_.pop_front();
  return first;
}

void Link::discard_rest(size_t from) {
  if (scrap_.empty()) scrap_.resize(kScrapBytes);
  for (size_t i = std::max(from, piece_); i < pieces_.size(); ++i) pieces_[i].at = nullptr;
}

void Link::set_starved(bool starved) {
  if (!starved_in_ || starved == starved_) return;
  starved_ = starved;
  if (starved)
    starved_in_->begin(monotonic_ns());
  else
    starved_in_->end(monotonic_ns());
}

void Link::close() {
  closed_ = true;
  set_starved(false);
  std::lock_guard lock(out_mutex_);
  if (!socket_) return;
  loop_.forget(socket_.get());
  socket_.reset();
  out_.clear();
  unsent_ = 0;
}

void Link::fail(const Error& error) {
  if (closed_) return;
  close();
  handler_.on_closed(*this, error);
}

}  // namespace stoker::wire
