// SPDX-License-Identifier: Apache-2.0
#include "api/serve.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "api/routes.h"
#include "base/error_line.h"
#include "base/home.h"
#include "base/log.h"
#include "control/providers/local.h"
#include "telemetry/inside.h"

namespace stoker::api {

namespace {

Status make_parents(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failure);
  if (failure) return errno_error("making the folder for " + path, failure.value());
  return ok();
}

constexpr int kOk = 0, kTryLater = 75, kPlatform = 125;

// Looked at before it is closed: somebody may have put a link there that leads to another folder of ours.
Status private_folder(const std::string& path) {
  STOKER_TRY(make_parents(path));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno_error("making folder " + path, errno);
  struct stat st;
  if (::lstat(path.c_str(), &st) != 0) return errno_error("looking at " + path, errno);
  if (!S_ISDIR(st.st_mode))
    return invalid(path + (S_ISLNK(st.st_mode) ? " is a link that leads nowhere" : " is no folder") +
                   "; set STOKER_HOME to a folder of yours");
  if (st.st_uid != ::getuid())
    return Error{Code::kDenied, path + " belongs to somebody else; set STOKER_HOME to a folder of yours", {}};
  if ((st.st_mode & 0077) != 0 && ::chmod(path.c_str(), 0700) != 0)
    return errno_error("closing " + path, errno);
  return ok();
}

// A folder that others use must not be closed to them by a slip: STOKER_HOME=/tmp, say.
Status refuse_shared_folder(const std::string& home) {
  struct stat st;
  std::error_code ignored;
  if (::stat(home.c_str(), &st) != 0 || (st.st_mode & 0077) == 0) return ok();
  if (std::filesystem::exists(home + "/run/server.lock", ignored) || std::filesystem::is_empty(home, ignored))
    return ok();
  return invalid(home + " holds other things and is open to others; set STOKER_HOME to a folder that is " +
                 "stoker's alone, or close it: chmod 700 " + home);
}

// SQLite's locks and its shared memory don't work over a network.
Status refuse_network_disk(const std::string& home) {
  struct statfs fs;
  if (::statfs(home.c_str(), &fs) != 0) return errno_error("looking at " + home, errno);
  constexpr uint32_t kNfs = 0x6969, kCifs = 0xff534d42, kSmb2 = 0xfe534d42, kCeph = 0x00c36400,
                     kLustre = 0x0bd00bd0;
  for (uint32_t type : {kNfs, kCifs, kSmb2, kCeph, kLustre})
    if (static_cast<uint32_t>(fs.f_type) == type)
      return invalid(home + " is on a network file system; set STOKER_HOME to a folder on a local disk");
  return ok();
}

Result<control::Catalogue> load_catalogue(const std::string& home) {
  STOKER_ASSIGN(control::Catalogue catalogue, control::Catalogue::built_in());
  std::string own = home + "/instance-types.json";
  if (std::filesystem::exists(own)) {
    STOKER_ASSIGN(std::string text, read_text(own));
    STOKER_TRY(catalogue.add(text, own));
  }
  return catalogue;
}

// Everything of a running server, in the order in which it is made; it goes in the reverse.
class Serving {
 public:
  explicit Serving(const ServeOptions& options) : options_(options) {}

  Status open(const std::string& home) {
    std::string socket = server_socket(home);
    STOKER_TRY(private_folder(std::filesystem::path(socket).parent_path()));
    STOKER_ASSIGN(store_, control::Store::open(home + "/jobs.db"));
    STOKER_ASSIGN(control::Catalogue catalogue, load_catalogue(home));
    control::Controller::Options control_options{home, {options_.cpu_scale}, control::Machine::here()};
    controller_ = std::make_unique<control::Controller>(loop_, system_clock(), *store_, std::move(catalogue),
                                                        control_options);
    watches_ = std::make_unique<control::FolderWatch>(loop_);
    STOKER_TRY(watches_->open());
    context_ = std::make_unique<NativeContext>(
        NativeContext{loop_, *controller_, *store_, *watches_, [this](bool force) {
                        loses_unwritten_ = loses_unwritten_ || force;
                        end("the server was told to end");
                        if (force) controller_->activity().fire();  // it may wait for room already
                      }});
    add_routes(router_, *context_);
    STOKER_ASSIGN(const std::string own, telemetry::instance_of(::getpid()));
    server_ = std::make_unique<http::Server>(
        loop_,
        [this](http::ExchangePtr exchange) {
          last_request_ns_ = monotonic_ns();
          router_.answer(std::move(exchange));
        },
        http::Limits(), [own](int peer) { return admit(peer, own); });
    auto provider = std::make_unique<control::LocalProvider>(
        loop_, control::LocalProvider::Options{options_.binary, home, socket},
        [this](const std::string& agent, const std::string& how) { controller_->agent_ended(agent, how); });
    STOKER_TRY(provider->open());
    // Before the queue starts: jobs of a server that nobody can reach would be nobody's.
    STOKER_TRY(server_->listen_unix(socket));
    return controller_->open(std::move(provider));
  }

  void run() {
    loop_.on_signals({SIGTERM, SIGINT, SIGHUP}, [this](int) {
      if (ending_) loop_.stop();  // asked twice: now
      end("the server was told to end");
    });
    last_request_ns_ = monotonic_ns();
    watch_idle();
    loop_.run();
  }

 private:
  // Stops what runs, waits until nothing is left of it, then ends.
  void end(const std::string& reason) {
    controller_->end(reason);
    if (!ending_) end_when_quiet();
    ending_ = true;
  }
  void end_when_quiet() {
    const Status written = loses_unwritten_ ? ok() : controller_->check_written();
    if (controller_->quiet() && !written.ok())
      log_line(LogLevel::kError, "server", written.error().message + "; told to end again, it ends without");
    if (controller_->quiet() && written.ok()) {
      // Once more round the loop, so that the answer to who asked is on its way.
      loop_.after(std::chrono::milliseconds(50), [this] { loop_.stop(); });
      return;
    }
    controller_->activity().once([this] { end_when_quiet(); });
  }

  void watch_idle() {
    if (options_.idle_s <= 0) return;
    int64_t idle_ms = static_cast<int64_t>(options_.idle_s * 1000);
    int64_t quiet_ms = (monotonic_ns() - last_request_ns_) / 1'000'000;
    bool active = !controller_->quiet() || !controller_->check_written().ok();
    if (!active && quiet_ms >= idle_ms) {
      log_line(LogLevel::kInfo, "server", "nothing to do: ending");
      return loop_.stop();
    }
    int64_t wait_ms = active ? idle_ms : idle_ms - quiet_ms;
    loop_.after(std::chrono::milliseconds(wait_ms), [this] { watch_idle(); });
  }

  const ServeOptions& options_;
  http::Loop loop_;
  std::unique_ptr<control::Store> store_;
  std::unique_ptr<control::FolderWatch> watches_;
  std::unique_ptr<control::Controller> controller_;
  std::unique_ptr<NativeContext> context_;
  Router router_;
  std::unique_ptr<http::Server> server_;
  int64_t last_request_ns_ = 0;
  bool ending_ = false;
  bool loses_unwritten_ = false;  // it was told to end by force
};

// Once at the start, so that a log of years does not fill the disk.
void rotate_log(const std::string& log) {
  constexpr off_t kMost = 8 << 20;
  struct stat st;
  if (::stat(log.c_str(), &st) == 0 && st.st_size > kMost) ::rename(log.c_str(), (log + ".1").c_str());
}

void detach_output(const std::string& home) {
  rotate_log(home + "/server.log");
  int log = ::open((home + "/server.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, 0);
  if (log >= 0) {
    ::dup2(log, 1);
    ::dup2(log, 2);
  }
  if (null > 2) ::close(null);
  if (log > 2) ::close(log);
}

}  // namespace

int serve(const ServeOptions& options) {
  auto refuse = [&](const Error& error, int code = kPlatform) {
    std::fputs(error_line("stoker server", error, options.json).c_str(), stderr);
    return code;
  };
  auto home = stoker_home();
  if (!home.ok()) return refuse(home.error());
  if (Status own = refuse_shared_folder(*home); !own.ok()) return refuse(own.error());
  for (const std::string& folder : {*home, *home + "/run", *home + "/jobs"})
    if (Status made = private_folder(folder); !made.ok()) return refuse(made.error());
  if (Status local = refuse_network_disk(*home); !local.ok()) return refuse(local.error());
  auto lock = open_file(*home + "/run/server.lock", O_RDWR | O_CREAT, 0600);
  if (!lock.ok()) return refuse(lock.error());
  if (::flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    return refuse(unavailable("one is running already for " + *home + "; `stoker server --stop` ends it"),
                  kTryLater);
  }
  // For people; the lock itself is what counts.
  std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock->get(), 0) == 0) (void)write_all(lock->get(), as_bytes(pid));
  ::signal(SIGPIPE, SIG_IGN);
  Serving serving(options);
  if (Status opened = serving.open(*home); !opened.ok()) return refuse(opened.error());
  if (options.detached) {
    (void)!::chdir("/");
    detach_output(*home);
  }
  log_line(LogLevel::kInfo, "server", "version " STOKER_VERSION " serves " + *home);
  if (options.ready_fd >= 0) {
    (void)!::write(options.ready_fd, "ready\n", 6);
    ::close(options.ready_fd);
  }
  if (options.json) {
    Json json;
    json.set("home", *home).set("socket", server_socket(*home)).set("version", STOKER_VERSION);
    json.set("pid", static_cast<int64_t>(::getpid()));
    if (Status said = write_all(1, as_bytes(json.dump() + "\n")); !said.ok()) return refuse(said.error());
  }
  serving.run();
  return kOk;
}

}  // namespace stoker::api
