// SPDX-License-Identifier: Apache-2.0
// What Loop holds; for this room's .cc files only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>

#include "http/loop.h"

namespace stoker::http {

struct Loop::Impl {
  struct Watch {
    explicit Watch(boost::asio::io_context& io, int fd) : descriptor(io, fd) {}
    boost::asio::posix::stream_descriptor descriptor;
    Callback readable;
    bool active = true;
  };

  boost::asio::io_context io{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{io.get_executor()};
  std::map<TimerId, boost::asio::steady_timer> timers;
  std::map<int, std::shared_ptr<Watch>> watches;
  std::vector<std::unique_ptr<boost::asio::signal_set>> signals;
  std::unique_ptr<boost::asio::thread_pool> background;
  TimerId next_timer = 1;

  void wait(std::shared_ptr<Watch> watch);
  void wait_signal(boost::asio::signal_set& set, std::function<void(int)> callback);
};

}  // namespace stoker::http
