// SPDX-License-Identifier: Apache-2.0
#include "feed/client.h"

#include "feed/client_core.h"
#include "wire/tcp.h"

namespace stoker::feed {

Client::Client(std::unique_ptr<ClientCore> core) : core_(std::move(core)) {}
Client::~Client() { close(); }

Result<std::unique_ptr<Client>> Client::open(ClientOptions options) {
  bool distant = !options.dispatcher.empty() || !options.workers.empty();
  if (!distant && options.children.empty())
    return invalid("a feed client without a dispatcher, workers or children");
  if (distant && options.token.empty()) return invalid("a feed client needs the job's token");
  // Own children write into batches themselves, where a spare one may not be waited for.
  if (!options.spare.commands.empty() && (!distant || !options.children.empty() || options.spare.cores <= 0))
    return invalid("spare workers are for a feed client with distant workers, without children");
  // What is no address will not become one by trying again.
  if (!options.dispatcher.empty()) STOKER_TRY(wire::parse_address(options.dispatcher));
  for (const std::string& worker : options.workers) STOKER_TRY(wire::parse_address(worker));
  if (options.plan.empty() || options.plan.size() > kMaxPlanJson)
    return invalid("a plan of " + std::to_string(options.plan.size()) + " bytes");
  if (options.attachment.size() > kMaxAttachment)
    return invalid("a dataset that pickles to " + std::to_string(options.attachment.size() >> 20) +
                   " MiB; the limit is " + std::to_string(kMaxAttachment >> 20) +
                   ": keep large arrays in files and open them in __getitem__");
  if (options.units) options.request_rows = 0;
  auto core = std::make_unique<ClientCore>(std::move(options));
  STOKER_TRY(core->start());
  return std::unique_ptr<Client>(new Client(std::move(core)));
}

Status Client::push(uint64_t id, std::vector<Ref> refs) { return core_->push(id, std::move(refs)); }
std::variant<Batch, NextError> Client::next(int64_t deadline_ns) { return core_->next(deadline_ns); }
void Client::hurry(int64_t limit_ns) { core_->hurry(limit_ns); }
ClientStats Client::stats() { return core_->stats(); }
void Client::close() { core_->close(); }

}  // namespace stoker::feed
