// SPDX-License-Identifier: Apache-2.0
#include "agent/network.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <sstream>
#include <vector>

#include "agent/process.h"
#include "base/files.h"

namespace stoker::agent {
namespace {

std::string dotted(uint32_t address) {
  in_addr bytes{htonl(address)};
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, &bytes, text, sizeof text);
}

uint32_t mask_of(int prefix) { return prefix == 0 ? 0 : ~uint32_t{0} << (32 - prefix); }

// The interface of the default route; "" without one. Columns: interface, destination, gateway, flags,
// reference count, use, metric, mask.
std::string uplink_of(const std::string& routes) {
  std::istringstream lines(routes);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string interface, destination, skip, mask;
    words >> interface >> destination >> skip >> skip >> skip >> skip >> skip >> mask;
    if (destination == "00000000" && mask == "00000000") return interface;
  }
  return "";
}

Status allow_forwarding(const std::string& interface) {
  const std::string path = "/proc/sys/net/ipv4/conf/" + interface + "/forwarding";
  STOKER_ASSIGN(UniqueFd fd, open_file(path, O_WRONLY));
  return write_all(fd.get(), as_bytes("1"));
}

// A table of its own, so that closing is one line.
std::string nft_rules(const std::string& bridge, const std::string& subnet) {
  return "table ip stoker_" + bridge + " {\n" +
         " chain out { type nat hook postrouting priority 100; ip saddr " + subnet + " oifname != \"" +
         bridge + "\" masquerade; }\n" + " chain in { type filter hook forward priority 0; oifname \"" +
         bridge + "\" iifname != \"" + bridge + "\" ct state established,related accept; oifname \"" +
         bridge + "\" iifname != \"" + bridge + "\" drop; }\n}\n";
}

// Removing takes the same rules with -D. What keeps others out goes before everything else, what lets ours
// out after it.
std::string iptables_rules(const std::string& bridge, const std::string& subnet, bool add) {
  const std::string into = " ! -i " + bridge + " -o " + bridge;
  const std::string first = add ? "-I FORWARD 1" : "-D FORWARD", last = add ? "-A" : "-D";
  return "*nat\n" + last + " POSTROUTING -s " + subnet + " ! -o " + bridge + " -j MASQUERADE\nCOMMIT\n" +
         "*filter\n" + first + into + " -j DROP\n" + first + into +
         " -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n" + last + " FORWARD -i " + bridge +
         " ! -o " + bridge + " -j ACCEPT\nCOMMIT\n";
}

Status filter(const std::string& program, std::vector<std::string> arguments, const std::string& rules) {
  Command command;
  command.arguments = std::move(arguments);
  command.arguments.insert(command.arguments.begin(), program);
  command.input = rules;
  command.limit_s = 10;
  STOKER_ASSIGN(int code, run_command(command));
  if (code != 0) return Error{Code::kUnsupported, program + ": exit code " + std::to_string(code), {}};
  return ok();
}

}  // namespace

Status open_egress(const std::string& bridge, const std::string& subnet) {
  STOKER_ASSIGN(std::string text, read_text("/proc/net/route"));
  const std::string uplink = uplink_of(text);
  if (uplink.empty()) return Error{Code::kUnsupported, "this machine has no default route", {}};
  std::string nft = find_program("nft"), iptables = find_program("iptables-restore");
  Status done = Error{Code::kUnsupported, "neither nft nor iptables is installed", {}};
  if (!nft.empty()) done = filter(nft, {"-f", "-"}, nft_rules(bridge, subnet));
  if (!done.ok() && !iptables.empty())
    done = filter(iptables, {"--noflush", "-w", "5"}, iptables_rules(bridge, subnet, true));
  STOKER_TRY(std::move(done));
  // Only once nobody else can come in that way.
  STOKER_TRY(allow_forwarding(uplink));
  return allow_forwarding(bridge);
}

Status close_egress(const std::string& bridge, const std::string& subnet) {
  if (std::string nft = find_program("nft"); !nft.empty())
    if (filter(nft, {"delete", "table", "ip", "stoker_" + bridge}, "").ok()) return ok();
  if (std::string iptables = find_program("iptables-restore"); !iptables.empty())
    (void)filter(iptables, {"--noflush", "-w", "5"}, iptables_rules(bridge, subnet, false));
  return ok();
}

std::string netmask(int prefix) { return dotted(mask_of(prefix)); }

Result<std::string> subnet_of(const std::string& address, int prefix) {
  in_addr bytes{};
  if (inet_pton(AF_INET, address.c_str(), &bytes) != 1)
    return invalid("'" + address + "' is not an IPv4 address");
  return dotted(ntohl(bytes.s_addr) & mask_of(prefix)) + "/" + std::to_string(prefix);
}

}  // namespace stoker::agent
