// SPDX-License-Identifier: Apache-2.0
#include "agent/server_link.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "http/client.h"

namespace stoker::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kRequestLimit{10'000}, kPollLimit{40'000};
constexpr milliseconds kFirstPause{20}, kLongestPause{2'000};
constexpr size_t kMostEventsAtOnce = 64;

}  // namespace

struct ServerLink::State {
  struct Queue {
    std::deque<AgentEvent> unsaid;
    int64_t last_seq = 0;
    bool closed = false;
  };
  std::string socket, path;
  StopRequest& stop;
  Guarded<Queue> queue;

  State(std::string socket_path, const std::string& id, StopRequest& request)
      : socket(std::move(socket_path)), path("/internal/v1/agents/" + id), stop(request) {}

  bool closed() {
    return queue.with([](Queue& q) { return q.closed; });
  }
  // true: closed meanwhile.
  bool pause(milliseconds length) {
    return queue.wait_until(
        steady_clock::now() + length, [](Queue& q) { return q.closed; },
        [](Queue& q, bool) { return q.closed; });
  }

  void say_events();
  void hear_commands();
};

void ServerLink::State::say_events() {
  http::Client client(socket);
  milliseconds wait = kFirstPause;
  for (;;) {
    bool closed = false;
    Json::Array batch = queue.wait_until(
        steady_clock::now() + std::chrono::hours(1), [](Queue& q) { return q.closed || !q.unsaid.empty(); },
        [&](Queue& q, bool) {
          closed = q.closed;
          Json::Array events;
          for (size_t i = 0; i < std::min(q.unsaid.size(), kMostEventsAtOnce); i++)
            events.push_back(q.unsaid[i].to_json());
          return events;
        });
    if (closed) return;
    if (batch.empty()) continue;
    auto answer = client.call("POST", path + "/events", Json(Json::Object{{"events", batch}}), kRequestLimit);
    if (answer.ok()) {
      const int64_t acknowledged = (*answer)["acknowledged"].as_int();
      const bool heard = queue.notify([&](Queue& q) {
        const size_t before = q.unsaid.size();
        while (!q.unsaid.empty() && q.unsaid.front().seq <= acknowledged) q.unsaid.pop_front();
        return q.unsaid.size() < before;
      });
      wait = heard ? kFirstPause : wait;
      if (heard) continue;
    } else {
      log_line(LogLevel::kWarn, "agent", "events: " + answer.error().message);
    }
    if (pause(wait)) return;
    wait = std::min(wait * 2, kLongestPause);
  }
}

void ServerLink::State::hear_commands() {
  http::Client client(socket);
  milliseconds wait = kFirstPause;
  for (int64_t heard = 0; !closed();) {
    auto answer = client.call("GET", path + "/commands?after=" + std::to_string(heard), {}, kPollLimit);
    if (!answer.ok()) {
      // Another server than the one that started us: nobody will ever ask for this instance's end.
      if (answer.error().code == Code::kNotFound && !stop.get())
        stop.request({Stop{}.grace_s, "the server does not know this agent"});
      if (pause(wait)) return;
      wait = std::min(wait * 2, kLongestPause);
      continue;
    }
    wait = kFirstPause;
    for (const auto& item : (*answer)["commands"].as_array()) {
      auto command = AgentCommand::from_json(item);
      // A command we do not understand is the server's mistake; hearing it for ever would not mend it.
      heard = std::max(heard, command.ok() ? command->seq : item["seq"].as_int(heard));
      if (command.ok())
        stop.request(std::get<Stop>(command->what));
      else
        log_line(LogLevel::kWarn, "agent", "command: " + command.error().message);
    }
  }
}

ServerLink::ServerLink(std::string socket_path, std::string agent_id, StopRequest& stop)
    : state_(std::make_shared<State>(std::move(socket_path), agent_id, stop)) {
  std::thread([state = state_] { state->say_events(); }).detach();
  std::thread([state = state_] { state->hear_commands(); }).detach();
}

ServerLink::~ServerLink() {
  state_->queue.notify([](State::Queue& q) { q.closed = true; });
}

void ServerLink::emit(decltype(AgentEvent::what) what) {
  state_->queue.notify([&](State::Queue& q) {
    q.unsaid.push_back({++q.last_seq, system_clock().wall_ms(), std::move(what)});
  });
}

Status ServerLink::flush(double limit_s) {
  return state_->queue.wait_until(
      steady_clock::now() + milliseconds(static_cast<int64_t>(limit_s * 1e3)),
      [](State::Queue& q) { return q.unsaid.empty(); },
      [](State::Queue& q, bool said) -> Status {
        if (said) return ok();
        std::string left;
        for (const auto& event : q.unsaid) left += " " + event.to_json().dump();
        return Error{Code::kDeadline, "the server did not hear:" + left, {}};
      });
}

}  // namespace stoker::agent
