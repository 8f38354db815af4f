// SPDX-License-Identifier: Apache-2.0
// Link: framed, non-blocking conversation over one TCP or Unix stream socket that lives in a Loop.
//
// Receiving happens in the loop's thread: for each frame the handler says where its payload shall go, the
// link puts it there without another copy and hashes it while it is in cache. send() and unsent() may be
// called from any thread; what the socket does not take at once goes out by the loop. An error ends the link:
// on_closed() comes once, from the loop, and nothing after it. The handler must outlive the link or close()
// it.
//
// Held by shared_ptr: threads that finish work for a peer may still hold a link that has just closed.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "wire/frame.h"
#include "wire/loop.h"
#include "wire/overlap.h"

namespace stoker::wire {

// A part of a payload and where it goes; nullptr throws it away. The memory must stay until on_frame() or
// on_closed().
struct Piece {
  uint8_t* at = nullptr;
  uint64_t size = 0;
  bool hash = false;
};

class Link;
class LinkHandler {
 public:
  virtual ~LinkHandler() = default;
  // Pieces whose sizes add up to header.length; none: the link keeps the payload itself (payload()). Check
  // header.length before: an error here ends the link.
  virtual Result<std::vector<Piece>> on_header(Link& link, const Header& header) = 0;
  // `hashes`: one per piece, 0 where none was wanted.
  virtual Status on_frame(Link& link, const Header& header, std::span<const uint64_t> hashes) = 0;
  virtual void on_closed(Link& link, const Error& error) = 0;
};

enum class LinkKind { kTcp, kLocal };  // kLocal: a socketpair; no header checks, descriptors may come along

class Link : public std::enable_shared_from_this<Link> {
 public:
  // `connecting`: connect() has been started; what is sent waits for it.
  static Result<std::shared_ptr<Link>> start(Loop& loop, UniqueFd socket, LinkKind kind, LinkHandler& handler,
                                             bool connecting = false);
  ~Link();

  // `small` and then `bulk` make the payload; `keep` owns what bulk shows until it is sent. header.length is
  // set here, header.hash too when all of the payload is small.
  void send(Header header, std::vector<uint8_t> small = {}, std::vector<ByteView> bulk = {},
            std::shared_ptr<const void> keep = {}, UniqueFd descriptor = {});
  uint64_t unsent() const { return unsent_; }
  uint64_t sent_bytes() const { return sent_bytes_; }

  // In the loop's thread:
  ByteView payload() const { return own_; }  // of the current frame, when the handler gave no pieces
  UniqueFd take_descriptor();                // one that came with a frame, oldest first
  void read_now();                           // what has come already, e.g. from a peer that has ended
  void discard_rest(
      size_t from = 0);  // what is missing of the current frame's pieces from there goes nowhere
  void close();          // no on_closed()
  bool closed() const { return closed_; }
  bool ended() const { return ended_; }  // closed by the peer, between two frames
  int64_t last_heard_ns() const { return last_heard_ns_; }
  uint64_t received_bytes() const { return received_bytes_; }
  // Counts there the time in which a payload had begun to come and the socket had nothing more of it: the
  // wire was slower than we. It outlives the link.
  void count_starved(Overlap& in) { starved_in_ = &in; }

 private:
  struct Out {
    HeaderBytes header;
    std::vector<uint8_t> small;
    std::vector<ByteView> bulk;
    std::shared_ptr<const void> keep;
    UniqueFd descriptor;
    uint64_t total = 0;
  };
  Link(Loop& loop, UniqueFd socket, LinkKind kind, LinkHandler& handler, bool connecting);
  void on_events(uint32_t events);
  Status receive();
  Result<size_t> receive_some(std::span<struct iovec> into);
  Status begin_frame();
  Status advance(size_t bytes);
  Status end_frame();
  Status flush_locked(size_t most);
  void arm_locked();
  void fail(const Error& error);
  void set_starved(bool starved);

  Loop& loop_;
  const LinkKind kind_;
  LinkHandler& handler_;

  // Sending. The socket is closed under this lock, so that no sender writes to a number that is somebody
  // else's now.
  mutable std::mutex out_mutex_;
  UniqueFd socket_;
  std::deque<Out> out_;
  uint64_t out_sent_ = 0;  // of the first
  std::atomic<uint64_t> unsent_ = 0, sent_bytes_ = 0;
  bool connecting_ = false;
  bool broken_ = false;
  uint32_t armed_ = 0;

  // Receiving.
  bool closed_ = false;
  bool ended_ = false;
  HeaderBytes header_bytes_{};
  size_t header_got_ = 0;
  Header header_;
  std::vector<uint8_t> own_;
  std::vector<Piece> pieces_;
  std::vector<uint64_t> hashes_;
  size_t piece_ = 0;
  uint64_t piece_got_ = 0;
  uint64_t piece_hashed_ = 0;
  BlockHash piece_hash_;
  std::vector<uint8_t> scrap_;
  std::deque<UniqueFd> descriptors_;
  int64_t last_heard_ns_ = 0;
  uint64_t received_bytes_ = 0;
  Overlap* starved_in_ = nullptr;
  bool starved_ = false;
};

}  // namespace stoker::wire
