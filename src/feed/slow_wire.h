// SPDX-License-Identifier: Apache-2.0
// For tests: a wire between a client and a worker on which each direction can be held back, between frames or
// inside one. Threads of its own; what is held is kept in memory.
#pragma once

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "feed/protocol.h"
#include "wire/frame.h"
#include "wire/tcp.h"

namespace stoker::feed {

class SlowWire {
 public:
  class Direction {
   public:
    // Frames that have not begun stay here from now on.
    void hold() {
      std::lock_guard lock(mutex_);
      held_ = true;
    }
    void release() {
      std::lock_guard lock(mutex_);
      held_ = cut_ = false;
      forward();
    }
    // Lets frames through up to the next of this type, of which only the header and `bytes` more. False while
    // none is here.
    bool pass_into(MessageType type, uint64_t bytes) {
      std::lock_guard lock(mutex_);
      while (waiting_.size() >= wire::kHeaderSize && rest_ == 0) {
        wire::Header header = *wire::decode(ByteView(waiting_).first(wire::kHeaderSize), true);
        bool found = header.type == static_cast<uint8_t>(type) && header.length > bytes;
        uint64_t size = wire::kHeaderSize + (found ? bytes : header.length);
        if (waiting_.size() < size) return false;
        write(size);
        if (!found) continue;
        rest_ = header.length - bytes;
        return cut_ = true;
      }
      return false;
    }

   private:
    friend class SlowWire;
    void came(ByteView bytes) {
      std::lock_guard lock(mutex_);
      waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
      forward();
    }
    void forward() {
      while (!waiting_.empty()) {
        if (rest_ == 0) {
          if (held_ || waiting_.size() < wire::kHeaderSize) return;
          rest_ = wire::kHeaderSize + wire::decode(ByteView(waiting_).first(wire::kHeaderSize), true)->length;
        } else if (held_ && cut_) {
          return;
        }
        uint64_t size = std::min<uint64_t>(rest_, waiting_.size());
        write(size);
        rest_ -= size;
      }
    }
    void write(uint64_t size) {
      for (uint64_t done = 0; done < size;) {
        ssize_t n = ::send(to_, waiting_.data() + done, size - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
          pollfd room{to_, POLLOUT, 0};
          ::poll(&room, 1, 1000);
          continue;
        }
        if (n <= 0) break;
        done += static_cast<uint64_t>(n);
      }
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(size));
    }
    std::mutex mutex_;
    std::vector<uint8_t> waiting_;
    uint64_t rest_ = 0;  // of the frame that has begun
    bool held_ = false;
    bool cut_ = false;  // inside a frame
    int to_ = -1;
  };

  explicit SlowWire(const std::string& worker)
      : listener_(*wire::listen_tcp({"127.0.0.1", 0})), worker_(worker) {
    thread_ = std::thread([this] { run(); });
  }
  ~SlowWire() {
    over_ = true;
    thread_.join();
  }
  std::string address() { return wire::local_address(listener_.get())->text(); }

  Direction to_worker, to_client;

 private:
  // One connection; a client that comes again finds nobody.
  void run() {
    UniqueFd client = accepted();
    if (!client) return;
    auto worker = wire::start_connecting_tcp(*wire::parse_address(worker_));
    to_client.to_ = client.get();
    to_worker.to_ = worker->get();
    pollfd ends[2] = {{client.get(), POLLIN, 0}, {worker->get(), POLLIN, 0}};
    std::vector<uint8_t> bytes(1 << 20);
    while (!over_) {
      if (::poll(ends, 2, 20) <= 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (ends[i].revents == 0) continue;
        ssize_t n = ::recv(ends[i].fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) return;
        if (n > 0) (i == 0 ? to_worker : to_client).came(ByteView(bytes).first(static_cast<size_t>(n)));
      }
    }
  }
  UniqueFd accepted() {
    while (!over_) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      if (auto taken = wire::accept_tcp(listener_.get()); taken.ok() && *taken) return std::move(*taken);
    }
    return {};
  }

  UniqueFd listener_;
  std::string worker_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace stoker::feed
