// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink.h"
#include "agent/steps/steps.h"

namespace stoker::agent {
namespace {

constexpr int kAttachTries = 3;

class StartStep : public Step {
 public:
  const char* name() const override { return "start"; }

  Status run(Instance& instance) override {
    HostView host = look_at_host();
    if (instance.assignment.gpus == 0) host.devices.clear();
    instance.plan.mounts = sandbox_layout(instance.layout, host);
    STOKER_ASSIGN(Sandbox sandbox,
                  Sandbox::launch(instance.plan, [&](pid_t pid) { return attach(instance, pid); }));
    instance.sandbox.emplace(std::move(sandbox));
    return ok();
  }

  Status undo(Instance& instance) override {
    instance.sandbox.reset();
    return ok();
  }

 private:
  // Another instance of the job may have ended and, finding the bridge unused, removed it: make it again.
  static Status attach(Instance& instance, pid_t pid) {
    const Network& net = instance.assignment.network;
    STOKER_ASSIGN(Netlink netlink, Netlink::open());
    STOKER_TRY(netlink.remove_link(instance.interface()));
    Status attached = ok();
    for (int tries = 0; tries < kAttachTries; tries++) {
      attached = netlink.make_veth(instance.interface(), net.bridge, "eth0", pid, net.mtu);
      if (attached.ok() || attached.error().code != Code::kNotFound) return attached;
      STOKER_ASSIGN(bool made, netlink.ensure_bridge(net.bridge, net.gateway, net.prefix, net.mtu));
      if (made && !net.isolated && !instance.stop.get())
        instance.events.emit(Notice{"no egress from this instance: the job's network was made again"});
    }
    return attached;
  }
};

}  // namespace

std::unique_ptr<Step> start_step() { return std::make_unique<StartStep>(); }

}  // namespace stoker::agent
