// SPDX-License-Identifier: Apache-2.0
#include "feed/pillow.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace stoker::feed {
namespace {

constexpr size_t kRequestBytes = 16;
constexpr size_t kReplyBytes = 40;
constexpr uint32_t kScaleGray16 = 1;    // in a request
constexpr uint32_t kClippedGray16 = 1;  // in a reply
constexpr uint64_t kMostMessage = 4096;
constexpr int kAttempts = 2;
constexpr int kDyingMs = 1000;  // between the end of its socket and its own

// What a reply says, by number; the first two are no fault of the picture's by themselves.
enum Answer : uint32_t {
  kPixels,
  kUnknown,
  kNoPillow,
  kTruncated,
  kCorrupt,
  kTooLarge,
  kUnsupported,
  kAnswers
};
constexpr const char* kKinds[kAnswers] = {"", "", "", "truncated", "corrupt", "too_large", "unsupported"};

struct Reply {
  uint32_t answer, flags, width, height;
  uint64_t length;
  int64_t cpu_ns;
};

enum class Moved { kAll, kEnded, kTimeout };

Moved wait_for(int socket, short events, int64_t deadline_ns) {
  for (;;) {
    int64_t left = deadline_ns - monotonic_ns();
    if (left <= 0) return Moved::kTimeout;
    pollfd one{socket, events, 0};
    int got = poll(&one, 1, static_cast<int>(std::min<int64_t>(left / 1'000'000 + 1, 1000)));
    if (got > 0) return Moved::kAll;
    if (got < 0 && errno != EINTR) return Moved::kEnded;
  }
}

Moved send_all(int socket, ByteView bytes, int64_t deadline_ns) {
  while (!bytes.empty()) {
    ssize_t n = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      if (Moved moved = wait_for(socket, POLLOUT, deadline_ns); moved != Moved::kAll) return moved;
    } else if (n == 0 || errno != EINTR) {
      return Moved::kEnded;
    }
  }
  return Moved::kAll;
}

Moved receive_all(int socket, MutableBytes bytes, int64_t deadline_ns) {
  while (!bytes.empty()) {
    ssize_t n = recv(socket, bytes.data(), bytes.size(), 0);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      if (Moved moved = wait_for(socket, POLLIN, deadline_ns); moved != Moved::kAll) return moved;
    } else if (n == 0 || errno != EINTR) {
      return Moved::kEnded;
    }
  }
  return Moved::kAll;
}

// A reply that no process of ours would send counts as its end.
std::optional<Reply> parse_reply(const uint8_t* at) {
  Reply reply{load_le<uint32_t>(at),      load_le<uint32_t>(at + 4),  load_le<uint32_t>(at + 8),
              load_le<uint32_t>(at + 12), load_le<uint64_t>(at + 16), load_le<int64_t>(at + 24)};
  if (reply.answer >= kAnswers) return {};
  if (reply.answer != kPixels) return reply.length <= kMostMessage ? std::optional(reply) : std::nullopt;
  uint64_t pixels = uint64_t{reply.width} * reply.height;
  bool fits = reply.width > 0 && reply.height > 0 && pixels <= uint64_t{pipeline::kMostOtherPixels};
  return fits && reply.length == 3 * pixels ? std::optional(reply) : std::nullopt;
}

struct Answered {
  Moved moved = Moved::kAll;
  Reply reply{};
  std::string message;
};

Answered ask(const wire::Process& process, ByteView file, image::Gray16 gray16, std::vector<uint8_t>& pixels,
             int64_t deadline_ns) {
  Answered out;
  uint8_t request[kRequestBytes] = {};
  store_le<uint64_t>(request, file.size());
  store_le<uint32_t>(request + 8, gray16 == image::Gray16::kScale ? kScaleGray16 : 0);
  uint8_t head[kReplyBytes];
  if ((out.moved = send_all(process.socket(), request, deadline_ns)) != Moved::kAll) return out;
  if ((out.moved = send_all(process.socket(), file, deadline_ns)) != Moved::kAll) return out;
  if ((out.moved = receive_all(process.socket(), head, deadline_ns)) != Moved::kAll) return out;
  auto reply = parse_reply(head);
  if (!reply) {
    out.moved = Moved::kEnded;
    return out;
  }
  out.reply = *reply;
  if (reply->answer == kPixels) {
    if (pixels.size() < reply->length) pixels.resize(reply->length);
    out.moved = receive_all(process.socket(), MutableBytes(pixels).first(reply->length), deadline_ns);
    return out;
  }
  out.message.resize(reply->length);
  out.moved = receive_all(process.socket(),
                          {reinterpret_cast<uint8_t*>(out.message.data()), out.message.size()}, deadline_ns);
  return out;
}

Error damaged(const char* kind, std::string message) {
  return {Code::kData, std::move(message), DataFault{kind, "", -1}};
}

Error refusal(Answer answer, const std::string& message, const Error& refused) {
  if (answer != kUnknown && answer != kNoPillow) return damaged(kKinds[answer], message);
  Error error = refused;
  error.message += "; " + message;
  return error;
}

}  // namespace

Pillow::Pillow(std::vector<std::string> python, std::vector<std::string> environment, Limits limits)
    : command_{std::move(python), std::move(environment), 0}, limits_(limits) {
  command_.argv.insert(command_.argv.end(), {"-m", "stoker.data.pillow_child"});
  command_.environment.push_back(
      "PYTHONSAFEPATH=1");  // what lies in the working folder is not ours to import
  // A picture is made of the same big blocks as the one before: glibc would map and fault each of them in
  // anew, which is two thirds of the CPU time of small pictures.
  for (const char* setting : {"MALLOC_MMAP_THRESHOLD_=33554432", "MALLOC_TRIM_THRESHOLD_=67108864"}) {
    std::string text = setting;
    if (getenv(text.substr(0, text.find('=')).c_str()) == nullptr)
      command_.environment.push_back(std::move(text));
  }
}

Pillow::~Pillow() {
  pool_.with([](Pool& pool) {
    if (pool.owner == getpid()) return;
    for (wire::Process& process : pool.idle) process.abandon();
  });
}

Result<wire::Process> Pillow::take() const {
  auto found = pool_.wait_until(
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(limits_.wall_ns),
      [&](Pool& pool) {
        if (pool.owner != getpid()) {
          for (wire::Process& process : pool.idle) process.abandon();
          pool.idle.clear();
          pool.alive = 0;
          pool.owner = getpid();
        }
        return !pool.idle.empty() || pool.alive < limits_.processes;
      },
      [](Pool& pool, bool ready) -> std::optional<wire::Process> {
        if (!ready) return {};
        if (pool.idle.empty()) {
          ++pool.alive;
          return wire::Process();
        }
        wire::Process process = std::move(pool.idle.back());
        pool.idle.pop_back();
        return process;
      });
  if (!found) return unavailable("all Pillow processes are busy");
  if (found->running()) return std::move(*found);
  auto started = wire::Process::start(command_);
  if (!started.ok()) {
    lose({});
    Error error = std::move(started).error();
    error.code = Code::kUnavailable;
    return std::move(error).during("starting Python for a picture that only Pillow may know");
  }
  return started;
}

void Pillow::give_back(wire::Process process) const {
  pool_.notify([&](Pool& pool) { pool.idle.push_back(std::move(process)); });
}

void Pillow::lose(wire::Process process) const {
  process.kill_and_reap();
  pool_.notify([](Pool& pool) { --pool.alive; });
}

Result<pipeline::OtherPicture> Pillow::decode(ByteView file, const Error& refused, image::Gray16 gray16,
                                              std::vector<uint8_t>& pixels) const {
  std::string how;
  bool late = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    STOKER_ASSIGN(wire::Process process, take());
    Answered got = ask(process, file, gray16, pixels, monotonic_ns() + limits_.wall_ns);
    if (got.moved == Moved::kAll) {
      cpu_ns_ += got.reply.cpu_ns;
      give_back(std::move(process));
      if (got.reply.answer != kPixels)
        return refusal(static_cast<Answer>(got.reply.answer), got.message, refused);
      image::Size size{static_cast<int>(got.reply.width), static_cast<int>(got.reply.height)};
      return pipeline::OtherPicture{image::packed(pixels.data(), size),
                                    (got.reply.flags & kClippedGray16) != 0, got.reply.cpu_ns};
    }
    // It may have been dead before it was asked, or the machine was put to sleep: another one decides.
    late = got.moved == Moved::kTimeout;
    if (!late) how = process.reap_or_kill(kDyingMs);
    lose(std::move(process));
  }
  if (late) {
    return damaged("corrupt", "Pillow took longer than " + std::to_string(limits_.wall_ns / 1'000'000'000) +
                                  " s and was ended, twice");
  }
  return damaged("corrupt", "a Python process with Pillow ended in the middle of this picture (" + how +
                                "), as did another one");
}

std::vector<int> Pillow::pids() const {
  return pool_.with([](Pool& pool) {
    std::vector<int> out;
    for (const wire::Process& process : pool.idle) out.push_back(process.pid());
    return out;
  });
}

}  // namespace stoker::feed
