// SPDX-License-Identifier: Apache-2.0
#include "agent/network.h"

#include <dirent.h>
#include <unistd.h>

#include <future>

#include "agent/netlink.h"
#include "agent/steps/steps.h"

namespace stoker::agent {
namespace {

// Whether the bridge has no interface left in it.
bool is_unused(const std::string& bridge) {
  DIR* folder = opendir(("/sys/class/net/" + bridge + "/brif").c_str());
  if (!folder) return false;
  bool used = false;
  while (dirent* entry = readdir(folder)) used = used || entry->d_name[0] != '.';
  closedir(folder);
  return !used;
}

class NetworkStep : public Step {
 public:
  const char* name() const override { return "network"; }

  Status run(Instance& instance) override {
    const Network& net = instance.assignment.network;
    STOKER_ASSIGN(Netlink netlink, Netlink::open());
    STOKER_ASSIGN(bool made, netlink.ensure_bridge(net.bridge, net.gateway, net.prefix, net.mtu));
    // The packet filter's tool takes longer than all the rest; the script need not wait for it.
    if (made && !net.isolated) egress_ = std::async(std::launch::async, &NetworkStep::egress, &instance);
    instance.plan.address = net.address;
    instance.plan.netmask = netmask(net.prefix);
    if (!net.isolated) instance.plan.gateway = net.gateway;
    return ok();
  }

  // Whoever finds the bridge unused removes it; two at once are harmless.
  Status undo(Instance& instance) override {
    const Network& net = instance.assignment.network;
    const bool opened = egress_.valid();
    if (opened) egress_.get();
    STOKER_ASSIGN(Netlink netlink, Netlink::open());
    STOKER_TRY(netlink.remove_link(instance.interface()));
    bool removed = false;
    if (is_unused(net.bridge)) {
      STOKER_ASSIGN(removed, netlink.remove_link(net.bridge));
    }
    // Who removed the bridge in our stead may have closed the way out before it was quite open.
    const bool gone = access(("/sys/class/net/" + net.bridge).c_str(), F_OK) != 0;
    if (net.isolated || !(removed || (opened && gone))) return ok();
    STOKER_ASSIGN(std::string subnet, subnet_of(net.address, net.prefix));
    return close_egress(net.bridge, subnet);
  }

 private:
  static Status open(const Network& net) {
    STOKER_ASSIGN(std::string subnet, subnet_of(net.address, net.prefix));
    return open_egress(net.bridge, subnet);
  }
  // Whoever ends may find that the others of the job, which end too, have taken the network away.
  static void egress(Instance* instance) {
    auto opened = open(instance->assignment.network);
    if (!opened.ok() && !instance->stop.get())
      instance->events.emit(Notice{"no egress from this job's network: " + opened.error().message});
  }

  std::future<void> egress_;
};

}  // namespace

std::unique_ptr<Step> network_step() { return std::make_unique<NetworkStep>(); }

}  // namespace stoker::agent
