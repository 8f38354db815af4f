// SPDX-License-Identifier: Apache-2.0
// A terminal that is drawn on again and again, on its second screen, so that what was there before is there
// after. Confined; one at a time in a process, since signals are the process's.
#pragma once

#include <termios.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"

namespace stoker::cli {

class Screen {
 public:
  // Of standard output; keys come from standard input where that is a terminal too.
  static Result<std::unique_ptr<Screen>> open();
  ~Screen();  // the terminal is as it was
  Screen(const Screen&) = delete;

  size_t columns() const { return columns_; }
  size_t rows() const { return rows_; }
  // In one write and without clearing first, so that nothing flickers.
  Status draw(const std::vector<std::string>& lines);

  enum class Woken { kTime, kResized, kQuit };
  // Until the time is over, the terminal has another size or was brought back to the foreground, or the user
  // wants to quit: q, Ctrl-C, Ctrl-D, or a signal that ends a process.
  Woken wait(int64_t most_ms);

 private:
  explicit Screen(UniqueFd signals) : signals_(std::move(signals)) {}
  Status enter();
  void leave();
  void look_at_size();
  std::optional<Woken> on_signal();
  bool quit_typed();

  UniqueFd signals_;
  termios before_{};
  bool has_keys_ = false;
  size_t columns_ = 80, rows_ = 24;
};

}  // namespace stoker::cli
