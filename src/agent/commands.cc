// SPDX-License-Identifier: Apache-2.0
#include "agent/commands.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <thread>

#include "agent/run.h"
#include "agent/server_link.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"

namespace stoker::agent {
namespace {

constexpr int kUsage = 64, kPlatform = 125;
constexpr double kLastWords_s = 60;
constexpr std::string_view kHelp =
    "stoker agent: makes one instance of a job and ends with it. The server starts it; nobody need type it.\n"
    "  --assignment FILE | --assignment-fd FD   what to make (src/agent/protocol.h); it may hold secrets\n"
    "  --server SOCKET --id NAME                whom to tell; without them events are printed\n"
    "  --program FILE                           the stoker for helpers inside; default: this one\n"
    "  --clear                                  only remove what an earlier agent left on the machine\n";

struct Options {
  std::string assignment, server, id, program;
  int assignment_fd = -1;
  bool clear = false;
};

Result<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    if (name == "--clear") {
      options.clear = true;
      continue;
    }
    if (i + 1 == argc) return invalid("agent: " + name + " wants a value, or is not known");
    const std::string value = argv[++i];
    if (name == "--assignment")
      options.assignment = value;
    else if (name == "--assignment-fd") {
      auto fd = typed_whole_number(0, 1 << 20, value);
      if (!fd.ok()) return std::move(fd).error().during("agent: " + name);
      options.assignment_fd = static_cast<int>(*fd);
    } else if (name == "--server")
      options.server = value;
    else if (name == "--id")
      options.id = value;
    else if (name == "--program")
      options.program = value;
    else
      return invalid("agent: no option " + name);
  }
  if (options.assignment.empty() == (options.assignment_fd < 0))
    return invalid("agent: exactly one of --assignment and --assignment-fd");
  if (options.server.empty() != options.id.empty()) return invalid("agent: --server and --id go together");
  return options;
}

Result<Assignment> read_assignment(const Options& options) {
  std::string path = options.assignment;
  UniqueFd fd(options.assignment_fd);
  if (fd) {
    fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
    path = "/proc/self/fd/" + std::to_string(fd.get());
  }
  STOKER_ASSIGN(std::string text, read_text(path));
  STOKER_ASSIGN(Json json, Json::parse(text));
  return Assignment::from_json(json);
}

std::string own_program() {
  char path[PATH_MAX] = {};
  return readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : "stoker";
}

class LinesToStdout : public EventSink {
 public:
  void emit(decltype(AgentEvent::what) what) override {
    last_seq_.with([&](int64_t& seq) {
      AgentEvent event{++seq, system_clock().wall_ms(), std::move(what)};
      (void)write_all(1, as_bytes(event.to_json().dump() + "\n"));
    });
  }

 private:
  Guarded<int64_t> last_seq_;
};

// TERM and INT as stop requests, for as long as the process lives. They are blocked in every thread.
void hear_signals(StopRequest& stop, double grace_s) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  int fd = signalfd(-1, &signals, SFD_CLOEXEC);
  std::thread([fd, &stop, grace_s] {
    signalfd_siginfo info;
    for (double grace = grace_s; read(fd, &info, sizeof info) == sizeof info; grace = 0)
      stop.request(
          {grace, std::string("the agent was sent SIG") + sigabbrev_np(static_cast<int>(info.ssi_signo))});
  }).detach();
}

int run(const Options& options, const Assignment& assignment) {
  // Threads outlive this function: what they use must too.
  static StopRequest stop;
  hear_signals(stop, assignment.grace_s);
  std::string program = options.program.empty() ? own_program() : options.program;
  if (options.server.empty()) {
    LinesToStdout events;
    run_instance(assignment, events, stop, program);
    return 0;
  }
  ServerLink link(options.server, options.id, stop);
  run_instance(assignment, link, stop, program);
  auto said = link.flush(kLastWords_s);
  if (said.ok()) return 0;
  log_line(LogLevel::kError, "agent", said.error().message);
  return kPlatform;
}

}  // namespace

int agent_main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
    (void)write_all(1, as_bytes(kHelp));
    return 0;
  }
  auto options = parse(argc, argv);
  if (!options.ok()) {
    log_line(LogLevel::kError, "agent", options.error().message);
    return kUsage;
  }
  auto assignment = read_assignment(*options);
  if (!assignment.ok()) {
    log_line(LogLevel::kError, "agent", "assignment: " + assignment.error().message);
    return kPlatform;
  }
  if (!options->clear) return run(*options, *assignment);
  auto cleared = clear_leftovers(*assignment);
  if (!cleared.ok()) log_line(LogLevel::kError, "agent", cleared.error().message);
  return cleared.ok() ? 0 : kPlatform;
}

}  // namespace stoker::agent
