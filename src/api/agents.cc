// SPDX-License-Identifier: Apache-2.0
#include "api/agents.h"

#include <charconv>

#include "api/long_poll.h"

namespace stoker::api {

namespace {

void commands(http::Loop& loop, control::Controller& controller, http::ExchangePtr exchange,
              const std::string& agent) {
  auto link = controller.link(agent);
  if (!link.ok()) return exchange->respond(http::error_response(link.error()));
  int64_t after = 0;
  std::string_view text = exchange->request().query_value("after");
  std::from_chars(text.data(), text.data() + text.size(), after);
  auto open = *link;
  long_poll(loop, exchange, open->changed, kLongPoll, [open, exchange, after](bool last) {
    Json::Array list;
    for (const agent::AgentCommand& command : open->commands)
      if (command.seq > after) list.push_back(command.to_json());
    if (list.empty() && !last) return false;
    Json body;
    body.set("commands", std::move(list));
    exchange->respond(http::json_response(body));
    return true;
  });
}

http::Response events(control::Controller& controller, const http::Request& request,
                      const std::string& agent) {
  auto parsed = Json::parse(request.body);
  if (!parsed.ok()) return http::error_response(parsed.error());
  std::vector<agent::AgentEvent> list;
  for (const Json& item : (*parsed)["events"].as_array()) {
    auto event = agent::AgentEvent::from_json(item);
    if (!event.ok()) return http::error_response(event.error());
    list.push_back(std::move(*event));
  }
  auto acknowledged = controller.take_events(agent, list);
  if (!acknowledged.ok()) return http::error_response(acknowledged.error());
  Json body;
  body.set("acknowledged", *acknowledged);
  return http::json_response(body);
}

}  // namespace

void add_agent_routes(Router& router, http::Loop& loop, control::Controller& controller) {
  router.add("GET", "/internal/v1/agents/{agent}/commands", Access::kOwner,
             [&loop, &controller](http::ExchangePtr exchange, const Router::Parameters& parameters) {
               commands(loop, controller, std::move(exchange), parameters[0]);
             });
  router.add("POST", "/internal/v1/agents/{agent}/events", Access::kOwner,
             [&controller](http::ExchangePtr exchange, const Router::Parameters& parameters) {
               exchange->respond(events(controller, exchange->request(), parameters[0]));
             });
}

}  // namespace stoker::api
