// SPDX-License-Identifier: Apache-2.0
#include "cli/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"

namespace stoker::cli {
namespace {

sigset_t our_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT}) sigaddset(&set, signal);
  return set;
}

// Second screen, no cursor, no wrapping: a character that is wider than we think costs its line's end alone.
constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J";
constexpr const char* kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

}  // namespace

Result<std::unique_ptr<Screen>> Screen::open() {
  const sigset_t set = our_signals();
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return errno_error("blocking signals", errno);
  UniqueFd signals(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return errno_error("listening to signals", errno);
  std::unique_ptr<Screen> screen(new Screen(std::move(signals)));
  STOKER_TRY(screen->enter());
  return screen;
}

Screen::~Screen() {
  leave();
  const sigset_t set = our_signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

Status Screen::enter() {
  has_keys_ = isatty(0) && tcgetattr(0, &before_) == 0;
  if (has_keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C and Ctrl-Z stay signals
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(0, TCSADRAIN, &raw);
  }
  look_at_size();
  return write_all(1, as_bytes(kEnter));
}

void Screen::leave() {
  (void)write_all(1, as_bytes(kLeave));
  if (has_keys_) tcsetattr(0, TCSADRAIN, &before_);
}

void Screen::look_at_size() {
  winsize size{};
  if (ioctl(1, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return;
  columns_ = size.ws_col;
  rows_ = size.ws_row;
}

Status Screen::draw(const std::vector<std::string>& lines) {
  std::string out = "\x1b[H";
  for (size_t i = 0; i < lines.size() && i < rows_; ++i) out += (i > 0 ? "\r\n" : "") + lines[i] + "\x1b[K";
  return write_all(1, as_bytes(out + "\x1b[J"));
}

bool Screen::quit_typed() {
  char keys[64];
  const ssize_t n = read(0, keys, sizeof keys);
  if (n <= 0) return true;  // the terminal is gone
  for (ssize_t i = 0; i < n; ++i)
    if (keys[i] == 'q' || keys[i] == 'Q' || keys[i] == 4) return true;
  return false;
}

std::optional<Screen::Woken> Screen::on_signal() {
  signalfd_siginfo info;
  if (read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return {};
  switch (info.ssi_signo) {
    case SIGWINCH:
      look_at_size();
      return Woken::kResized;
    case SIGTSTP:
      leave();
      raise(SIGSTOP);
      (void)enter();
      return Woken::kResized;
    case SIGCONT:
      return Woken::kResized;
    default:
      return Woken::kQuit;
  }
}

Screen::Woken Screen::wait(int64_t most_ms) {
  const int64_t until = monotonic_ns() + most_ms * 1'000'000;
  while (true) {
    const int64_t left_ms = std::max<int64_t>((until - monotonic_ns()) / 1'000'000, 0);
    pollfd ready[2] = {{signals_.get(), POLLIN, 0}, {has_keys_ ? 0 : -1, POLLIN, 0}};
    const int n = poll(ready, 2, static_cast<int>(left_ms));
    if (n == 0) return Woken::kTime;
    if (n < 0 && errno != EINTR) return Woken::kQuit;
    if (ready[0].revents)
      if (auto woken = on_signal()) return *woken;
    if (ready[1].revents && quit_typed()) return Woken::kQuit;
  }
}

}  // namespace stoker::cli
