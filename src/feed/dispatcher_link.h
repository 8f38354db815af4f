// SPDX-License-Identifier: Apache-2.0
// A worker's connection to one dispatcher. The dispatcher ends with the training, so that its end is no news:
// the log is told of a connection that broke, of a token that is refused, and of a dispatcher that is missed
// for long. Confined to the loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "feed/dialer.h"

namespace stoker::feed {

class DispatcherLink : public DialerHandler {
 public:
  // `on_up`: it wants to hear of us now.
  DispatcherLink(wire::Loop& loop, const std::string& address, const std::string& token,
                 std::function<void()> on_up);
  void start();
  void stop();
  void send_about(const std::string& json);  // where it is up
  void tick(int64_t now_ns);                 // now and then

 private:
  void on_up() override;
  Result<std::vector<wire::Piece>> on_message_header(const wire::Header& header) override;
  Status on_message(const wire::Header& header, std::span<const uint64_t> hashes) override;
  void on_down(const Error& error, bool ended) override;
  void on_problem(const Error& error) override { last_ = error.message; }
  void on_refused(const Error& error) override;
  void tell(const std::string& what);

  const std::function<void()> on_up_;
  std::string last_;  // problem
  int64_t away_since_ns_ = 0;
  bool told_ = false;  // that it is missed
  bool stopped_ = true;
  Dialer dialer_;
};

}  // namespace stoker::feed
