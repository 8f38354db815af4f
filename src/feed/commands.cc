// SPDX-License-Identifier: Apache-2.0
#include "feed/commands.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/number.h"
#include "feed/dispatcher.h"
#include "feed/worker.h"

namespace stoker::feed {
namespace {
constexpr int kUsage = 64;
constexpr int kFailed = 125;

constexpr const char* kWorkerHelp =
    "stoker feed-worker: makes samples for training jobs\n"
    "  --listen HOST:PORT       where clients come (port 0: any)\n"
    "  --dispatcher HOST:PORT   register there; several with commas between\n"
    "  --advertise HOST:PORT    the address that clients are told (default: the one listened on)\n"
    "  --group NAME             of the job, for the dispatcher's figures\n"
    "  --token-file FILE        the job's token\n"
    "  --threads N              how many; default: the cores that quota and affinity allow\n"
    "  --python PROGRAM         interpreter for Python datasets, and for pictures that only Pillow reads\n"
    "                           (default: $STOKER_PYTHON)\n"
    "  --budget-mb N            memory for samples that wait to be sent (default 512)\n"
    "  --picture-cache KIND     keep what makes decoding cheaper the next time: index or\n"
    "                           coefficients\n"
    "  --picture-cache-dir DIR  where (default: in the cache folder)\n"
    "  --picture-cache-bytes N  how much (default 16 GiB)\n"
    "  --picture-cache-total N  how much of all sources there together (0, the default: half of the disk)\n"
    "  --fd N                   serve the parent process on this socket instead\n";
constexpr const char* kDispatcherHelp =
    "stoker feed-dispatcher: tells training jobs which feed workers there are\n"
    "  --listen HOST:PORT\n"
    "  --token-file FILE        the job's token\n"
    "  --sizing-file FILE       where to say how many workers are wanted, whenever that changes\n";

Result<std::map<std::string, std::string>> parse_flags(int argc, char** argv, const std::string& known) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i], value;
    if (size_t equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    } else if (flag != "--help" && ++i < argc) {
      value = argv[i];
    }
    if (flag != "--help" && known.find("  " + flag + " ") == std::string::npos)
      return invalid("unknown option " + flag);
    if (flag != "--help" && value.empty()) return invalid("option " + flag + " needs a value");
    flags[flag] = value;
  }
  return flags;
}

// A flag that is a number of [least, most]; `otherwise` where it was not given.
Result<int64_t> number_flag(const std::map<std::string, std::string>& flags, const std::string& flag,
                            int64_t least, int64_t most, int64_t otherwise) {
  auto found = flags.find(flag);
  if (found == flags.end()) return otherwise;
  auto value = typed_whole_number(least, most, found->second);
  if (!value.ok()) return std::move(value).error().during(flag);
  return value;
}

int usage(const std::string& problem, const char* help) {
  std::fprintf(stderr, "%s\n%s", problem.c_str(), help);
  return kUsage;
}

// Ends the program's work on SIGTERM and SIGINT, from a thread that waits for them. A child leaves Ctrl-C,
// which goes to the whole foreground group, to its parent: a signal that is blocked would wait even if it is
// ignored.
class Signals {
 public:
  // Before any other thread is started, so that all inherit the mask.
  explicit Signals(bool child = false) {
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    if (child)
      signal(SIGINT, SIG_IGN);
    else
      sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  template <typename First, typename Second>
  void watch(First first, Second second) {
    thread_ = std::thread([this, first, second] {
      for (int count = 0;;) {
        int got = 0;
        if (sigwait(&set_, &got) != 0 || got == SIGUSR1) return;
        if (count++ == 0)
          first();
        else
          second();
      }
    });
  }
  ~Signals() {
    if (!thread_.joinable()) return;
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }

 private:
  sigset_t set_;
  std::thread thread_;
};
}  // namespace

int feed_worker_main(int argc, char** argv) {
  auto flags = parse_flags(argc, argv, kWorkerHelp);
  if (!flags.ok()) return usage("stoker feed-worker: " + flags.error().message, kWorkerHelp);
  if (flags->count("--help")) return std::fputs(kWorkerHelp, stdout), 0;
  WorkerOptions options;
  bool child = flags->count("--fd") > 0;
  auto child_fd = number_flag(*flags, "--fd", 0, 1 << 20, options.child_fd);
  auto threads = number_flag(*flags, "--threads", 1, 4096, options.threads);
  auto budget_mb =
      number_flag(*flags, "--budget-mb", 1, 1 << 24, static_cast<int64_t>(options.budget_bytes >> 20));
  pipeline::PictureCacheOptions& cache = options.picture_cache;
  auto cache_bytes = number_flag(*flags, "--picture-cache-bytes", 1, int64_t{1} << 60,
                                 static_cast<int64_t>(cache.budget_bytes));
  auto cache_total = number_flag(*flags, "--picture-cache-total", 0, int64_t{1} << 60,
                                 static_cast<int64_t>(cache.total_bytes));
  for (const auto* number : {&child_fd, &threads, &budget_mb, &cache_bytes, &cache_total})
    if (!number->ok()) return usage("stoker feed-worker: " + number->error().message, kWorkerHelp);
  options.child_fd = static_cast<int>(*child_fd);
  options.threads = static_cast<int>(*threads);
  options.budget_bytes = static_cast<uint64_t>(*budget_mb) << 20;
  cache = {(*flags)["--picture-cache"], (*flags)["--picture-cache-dir"], static_cast<uint64_t>(*cache_bytes),
           static_cast<uint64_t>(*cache_total)};
  options.listen = (*flags)["--listen"];
  std::istringstream dispatchers((*flags)["--dispatcher"]);
  for (std::string address; std::getline(dispatchers, address, ',');) options.dispatchers.push_back(address);
  options.advertise = (*flags)["--advertise"];
  options.group = (*flags)["--group"];
  const char* python = std::getenv("STOKER_PYTHON");
  if (flags->count("--python"))
    options.python = {(*flags)["--python"]};
  else if (python && *python && !child)
    options.python = {python};
  if (!child) {
    if (options.listen.empty() || !flags->count("--token-file"))
      return usage("stoker feed-worker: --listen and --token-file are needed (or --fd)", kWorkerHelp);
    auto token = read_token((*flags)["--token-file"]);
    if (!token.ok()) {
      std::fprintf(stderr, "stoker feed-worker: %s\n", token.error().message.c_str());
      return kFailed;
    }
    options.token = std::move(token).value();
    if (const char* folder = std::getenv("STOKER_TELEMETRY_DIR")) options.telemetry_folder = folder;
  }
  Signals signals(child);
  auto worker = Worker::open(std::move(options));
  if (!worker.ok()) {
    std::fprintf(stderr, "stoker feed-worker: %s\n", worker.error().message.c_str());
    return kFailed;
  }
  Worker& running = **worker;
  signals.watch([&] { running.drain(); }, [&] { running.stop(); });
  if (!child) log_line(LogLevel::kInfo, "feed-worker", "listening on " + running.address());
  running.run();
  return 0;
}

int feed_dispatcher_main(int argc, char** argv) {
  auto flags = parse_flags(argc, argv, kDispatcherHelp);
  if (!flags.ok()) return usage("stoker feed-dispatcher: " + flags.error().message, kDispatcherHelp);
  if (flags->count("--help")) return std::fputs(kDispatcherHelp, stdout), 0;
  if (!flags->count("--listen") || !flags->count("--token-file"))
    return usage("stoker feed-dispatcher: --listen and --token-file are needed", kDispatcherHelp);
  auto token = read_token((*flags)["--token-file"]);
  if (!token.ok()) {
    std::fprintf(stderr, "stoker feed-dispatcher: %s\n", token.error().message.c_str());
    return kFailed;
  }
  Signals signals;
  auto dispatcher =
      Dispatcher::open({(*flags)["--listen"], std::move(token).value(), (*flags)["--sizing-file"]});
  if (!dispatcher.ok()) {
    std::fprintf(stderr, "stoker feed-dispatcher: %s\n", dispatcher.error().message.c_str());
    return kFailed;
  }
  Dispatcher& running = **dispatcher;
  signals.watch([&] { running.stop(); }, [&] { running.stop(); });
  log_line(LogLevel::kInfo, "feed-dispatcher", "listening on " + running.address());
  running.run();
  return 0;
}

}  // namespace stoker::feed
