// SPDX-License-Identifier: Apache-2.0
#include "http/loop.h"

#include <boost/asio/post.hpp>

#include "http/loop_impl.h"

namespace stoker::http {

namespace asio = boost::asio;

Loop::Loop() : impl_(std::make_unique<Impl>()) {}

Loop::~Loop() {
  if (impl_->background) impl_->background->join();
  for (auto& [fd, watch] : impl_->watches) {
    watch->active = false;
    watch->descriptor.release();  // the fd is its owner's
  }
}

void Loop::run() { impl_->io.run(); }
void Loop::stop() { impl_->io.stop(); }
void Loop::post(Callback callback) { asio::post(impl_->io, std::move(callback)); }

Loop::TimerId Loop::after(std::chrono::milliseconds delay, Callback callback) {
  TimerId id = impl_->next_timer++;
  auto [at, added] = impl_->timers.try_emplace(id, impl_->io, delay);
  at->second.async_wait([this, id, callback = std::move(callback)](const boost::system::error_code&) {
    // Cancelled means erased, also when the wait had already completed.
    if (impl_->timers.erase(id) > 0) callback();
  });
  return id;
}

void Loop::cancel(TimerId timer) { impl_->timers.erase(timer); }

void Loop::Impl::wait(std::shared_ptr<Watch> watch) {
  auto& descriptor = watch->descriptor;
  descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                        [this, watch = std::move(watch)](const boost::system::error_code& error) mutable {
                          if (error || !watch->active) return;
                          watch->readable();
                          if (watch->active) wait(std::move(watch));
                        });
}

void Loop::watch(int fd, Callback readable) {
  auto watch = std::make_shared<Impl::Watch>(impl_->io, fd);
  watch->readable = std::move(readable);
  impl_->watches[fd] = watch;
  impl_->wait(std::move(watch));
}

void Loop::unwatch(int fd) {
  auto at = impl_->watches.find(fd);
  if (at == impl_->watches.end()) return;
  at->second->active = false;
  at->second->descriptor.release();
  impl_->watches.erase(at);
}

void Loop::Impl::wait_signal(asio::signal_set& set, std::function<void(int)> callback) {
  set.async_wait([this, &set, callback](const boost::system::error_code& error, int signal) {
    if (error) return;
    callback(signal);
    wait_signal(set, callback);
  });
}

void Loop::on_signals(std::vector<int> signals, std::function<void(int)> callback) {
  auto set = std::make_unique<asio::signal_set>(impl_->io);
  for (int signal : signals) set->add(signal);
  impl_->wait_signal(*set, std::move(callback));
  impl_->signals.push_back(std::move(set));
}

void Loop::offload(std::function<Callback()> work) {
  if (!impl_->background) impl_->background = std::make_unique<asio::thread_pool>(1);
  asio::post(*impl_->background, [this, work = std::move(work)] { post(work()); });
}

}  // namespace stoker::http
