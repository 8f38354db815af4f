// SPDX-License-Identifier: Apache-2.0
#include "control/log_stream.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>

namespace stoker::control {

FolderWatch::~FolderWatch() {
  if (fd_) loop_.unwatch(fd_.get());
}

Status FolderWatch::open() {
  fd_.reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd_) return errno_error("watching logs", errno);
  loop_.watch(fd_.get(), [this] { on_readable(); });
  return ok();
}

Result<std::shared_ptr<Signal>> FolderWatch::watch(const std::string& folder) {
  int wd = ::inotify_add_watch(fd_.get(), folder.c_str(), IN_MODIFY | IN_CREATE | IN_ONLYDIR);
  if (wd < 0) return errno_error("watching " + folder, errno);
  // The same folder has the same number.
  if (auto held = signals_[wd].lock()) return held;
  auto signal = std::shared_ptr<Signal>(new Signal, [this, wd](Signal* dead) {
    delete dead;
    auto at = signals_.find(wd);
    if (at == signals_.end() || !at->second.expired()) return;
    signals_.erase(at);
    ::inotify_rm_watch(fd_.get(), wd);
  });
  signals_[wd] = signal;
  return signal;
}

void FolderWatch::on_readable() {
  alignas(inotify_event) char buffer[16 * 1024];
  while (true) {
    ssize_t n = ::read(fd_.get(), buffer, sizeof buffer);
    if (n <= 0) return;
    for (char* at = buffer; at < buffer + n;) {
      auto* event = reinterpret_cast<inotify_event*>(at);
      at += sizeof *event + event->len;
      if (event->mask & IN_Q_OVERFLOW) {
        std::vector<std::shared_ptr<Signal>> all;
        for (auto& [wd, weak] : signals_)
          if (auto signal = weak.lock()) all.push_back(std::move(signal));
        for (auto& signal : all) signal->fire();
        continue;
      }
      auto found = signals_.find(event->wd);
      if (found == signals_.end()) continue;
      if (auto signal = found->second.lock()) signal->fire();
    }
  }
}

namespace {

constexpr size_t kPiece = 128 * 1024;

struct OpenSource {
  LogSource what;
  std::shared_ptr<Signal> folder_changed;
  UniqueFd fd;
  std::string partial;  // the beginning of a line whose end has not come yet
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(FolderWatch& watches, http::ExchangePtr exchange, std::function<std::vector<LogSource>()> all,
         bool follow, std::function<bool()> over, Signal& changed)
      : watches_(watches),
        exchange_(std::move(exchange)),
        all_(std::move(all)),
        follow_(follow),
        over_(std::move(over)),
        changed_(changed) {}

  void start() {
    open_new_sources();
    exchange_->begin_stream(200, "text/plain; charset=utf-8");
    exchange_->when_gone([self = weak_from_this()] {
      if (auto stream = self.lock()) stream->close();
    });
    pump();
  }

 private:
  void open_new_sources() {
    std::vector<LogSource> all = all_();
    for (size_t i = sources_.size(); i < all.size(); ++i) {
      OpenSource open{std::move(all[i]), {}, {}, {}};
      if (follow_) {
        // Before the first read, so that no write falls between. Without a watch (none left) `changed` still
        // finishes.
        if (auto signal = watches_.watch(open.what.folder); signal.ok())
          open.folder_changed = std::move(*signal);
      }
      sources_.push_back(std::move(open));
    }
  }

  void pump() {
    if (writing_ || closed_) return;
    if (waiting_) stop_waiting();
    // Asked before reading: what was written before the end is then surely read.
    bool last = !follow_ || over_();
    if (follow_) open_new_sources();
    std::string out;
    // Of a line that is longer than a piece only the end makes output.
    for (bool more = true; more && out.empty();) {
      more = false;
      for (OpenSource& source : sources_) more = read(source, out) || more;
    }
    if (out.empty() && last) return finish();
    if (out.empty()) return wait();
    writing_ = true;
    exchange_->write(std::move(out), [self = shared_from_this()](bool taken) {
      self->writing_ = false;
      if (taken)
        self->pump();
      else
        self->close();
    });
  }

  // false when nothing was there.
  bool read(OpenSource& source, std::string& out) {
    if (!source.fd) {
      auto opened = open_file(source.what.path, O_RDONLY);
      if (!opened.ok()) return false;  // not there yet
      source.fd = std::move(*opened);
    }
    buffer_.resize(kPiece);
    ssize_t n;
    do {
      n = ::read(source.fd.get(), buffer_.data(), buffer_.size());
    } while (n < 0 && errno == EINTR);
    if (n <= 0) return false;
    std::string_view bytes(buffer_.data(), static_cast<size_t>(n));
    if (source.what.prefix.empty()) {
      out.append(bytes);
      return true;
    }
    while (!bytes.empty()) {
      size_t end = bytes.find('\n');
      if (end == std::string_view::npos) {
        source.partial.append(bytes);
        if (source.partial.size() > kPiece) flush(source, out);
        return true;
      }
      out.append(source.what.prefix).append(source.partial).append(bytes.substr(0, end + 1));
      source.partial.clear();
      bytes.remove_prefix(end + 1);
    }
    return true;
  }

  static void flush(OpenSource& source, std::string& out) {
    if (source.partial.empty()) return;
    out.append(source.what.prefix).append(source.partial).append("\n");
    source.partial.clear();
  }

  void wait() {
    waiting_ = true;
    auto wake = [self = shared_from_this()] { self->pump(); };
    for (OpenSource& source : sources_)
      tickets_.push_back(source.folder_changed ? source.folder_changed->once(wake) : 0);
    changed_ticket_ = changed_.once(wake);
  }
  void stop_waiting() {
    waiting_ = false;
    for (size_t i = 0; i < sources_.size(); ++i)
      if (sources_[i].folder_changed) sources_[i].folder_changed->drop(tickets_[i]);
    tickets_.clear();
    changed_.drop(changed_ticket_);
  }

  void finish() {
    std::string out;
    for (OpenSource& source : sources_) flush(source, out);
    if (!out.empty()) exchange_->write(std::move(out), nullptr);
    exchange_->end_stream();
    close();
  }
  void close() {
    if (closed_) return;
    closed_ = true;
    auto self = shared_from_this();  // the tickets may hold the last reference
    if (waiting_) stop_waiting();
    sources_.clear();  // and with them the watches, whose service need not outlive a finished stream
  }

  FolderWatch& watches_;
  http::ExchangePtr exchange_;
  std::function<std::vector<LogSource>()> all_;
  bool follow_;
  std::function<bool()> over_;
  Signal& changed_;
  std::vector<OpenSource> sources_;
  std::vector<Signal::Ticket> tickets_;
  Signal::Ticket changed_ticket_ = 0;
  std::string buffer_;
  bool writing_ = false, waiting_ = false, closed_ = false;
};

}  // namespace

void stream_logs(FolderWatch& watches, http::ExchangePtr exchange,
                 std::function<std::vector<LogSource>()> sources, bool follow, std::function<bool()> over,
                 Signal& changed) {
  std::make_shared<Stream>(watches, std::move(exchange), std::move(sources), follow, std::move(over), changed)
      ->start();
}

}  // namespace stoker::control
