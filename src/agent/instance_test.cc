// SPDX-License-Identifier: Apache-2.0
// Instances for real: what a script sees, how its end is told, and that nothing stays.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <thread>

#include "agent/process.h"
#include "agent/test_job.h"
#include "base/hash.h"
#include "base/refuse_call.h"
#include "telemetry/series.h"

namespace stoker::agent {
namespace {

TEST(Instance, SeesItsFolderAndNothingItShouldNot) {
  NEEDS_ROOT();
  TestJob job;
  std::filesystem::create_directories(job.root() + "/photos");
  job.write(job.root() + "/photos/a.txt", "input");
  job.assignment.channels = {{"photos", job.root() + "/photos", true}};
  job.assignment.hyperparameters = {{"lr", "0.1"}};
  job.assignment.entry.arguments = {"--epochs", "2"};
  job.script(R"(
import json, os, socket, sys
def attempt(path):
    try:
        open(path, 'w').write('x'); return 'written'
    except OSError as e: return e.strerror
print('arguments', sys.argv[1:], 'folder', os.getcwd(), 'host', socket.gethostname())
print('input', open('/opt/ml/input/data/photos/a.txt').read())
print('hyperparameters', open('/opt/ml/input/config/hyperparameters.json').read())
print('current', json.load(open('/opt/ml/input/config/resourceconfig.json'))['current_host'])
print('peer', socket.gethostbyname('algo-2'))
for path in ('/etc/x', '/opt/ml/input/data/photos/x', '/proc/sys/kernel/hostname', '/sys/x'): print(path, attempt(path))
for path in ('/opt/ml/code/x', '/opt/ml/model/x', '/tmp/x', '/dev/shm/x', '/opt/ml/output/data/x', '/opt/ml/input/x'):
    print(path, attempt(path))
print('processes', sorted(int(p) for p in os.listdir('/proc') if p.isdigit())[:2], len([p for p in os.listdir('/proc') if p.isdigit()]))
print('stoker home', os.listdir(sys.argv[0] and os.environ['HOME_OF_STOKER']))
print('tmp', [n for n in os.listdir('/tmp') if not n.startswith('stoker-test')])
status = dict(l.split(':', 1) for l in open('/proc/self/status'))
print('capabilities', {status[k].strip() for k in ('CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'CapInh')}, status['NoNewPrivs'].strip())
print('interfaces', sorted(n for _, n in socket.if_nameindex()))
print('descriptors', sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))
try: open('/proc/1/environ').read(); print('shim is open')
except OSError: print('shim is closed')
)");
  job.assignment.environment = {{"HOME_OF_STOKER", job.assignment.stoker_home}};
  EXPECT_EQ(job.run_to_exit().code, 0);
  const std::string log = job.log();
  for (const char* line : {"arguments ['--epochs', '2'] folder /opt/ml/code host algo-1\n",
                           "input input\n",
                           "hyperparameters {\"lr\":\"0.1\"}\n",
                           "current algo-1\n",
                           "/etc/x Read-only file system\n",
                           "/opt/ml/input/data/photos/x Read-only file system\n",
                           "/proc/sys/kernel/hostname Read-only file system\n",
                           "/opt/ml/code/x written\n",
                           "/opt/ml/model/x written\n",
                           "/tmp/x written\n",
                           "/dev/shm/x written\n",
                           "/opt/ml/output/data/x written\n",
                           "/opt/ml/input/x written\n",
                           "processes [1, 2] 2\n",
                           "stoker home []\n",
                           "tmp ['x']\n",
                           "capabilities {'0000000000000000'} 1\n",
                           "interfaces ['eth0', 'lo']\n",
                           "descriptors ['0', '1', '2'] 4\n",
                           "shim is closed\n"})
    EXPECT_NE(log.find(line), std::string::npos) << line << "missing in:\n" << log;
  EXPECT_NE(log.find("peer " + job.assignment.addresses["algo-2"]), std::string::npos) << log;
  EXPECT_FALSE(std::filesystem::exists(job.assignment.code_dir + "/x"))
      << "writes to code are the instance's own";
  EXPECT_TRUE(std::filesystem::exists(job.assignment.job_dir + "/model/x"));
  EXPECT_TRUE(std::filesystem::exists(job.assignment.job_dir + "/output/algo-1/data/x"));
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, OfAnotherUserLeavesNoFileOfRoot) {
  NEEDS_ROOT();
  TestJob job(65534);
  job.assignment.feed = {{"algo-1:7170"}, job.assignment.job_dir + "/feed-token"};
  job.write(job.assignment.feed.token_file, "secret", 0400);
  ASSERT_EQ(chown(job.assignment.feed.token_file.c_str(), 65534, 65534), 0);
  job.script(R"(
import os
print(os.getuid(), os.getgid(), open('/opt/ml/input/config/feed-token').read(), os.environ['STOKER_FEED'])
print(oct(os.stat('/opt/ml/input/config/feed-token').st_mode & 0o777))
open('/opt/ml/model/m', 'w').write('m'); open('/opt/ml/code/c', 'w').write('c')
)");
  EXPECT_EQ(job.run_to_exit().code, 0) << job.log();
  EXPECT_EQ(job.log(), "65534 65534 secret algo-1:7170\n0o400\n");
  EXPECT_EQ(job.foreign_files(), "");
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, CallsThatLeadOutOfItAreRefused) {
  NEEDS_ROOT();
  for (uint32_t user : {0u, 65534u}) {
    TestJob job(user);
    job.script(R"(
import ctypes, errno, os, platform, signal, threading
libc = ctypes.CDLL(None, use_errno=True)
NEW = {'user': 0x10000000, 'cgroup': 0x02000000, 'mount': 0x00020000}
CLONE, KEYS = {'x86_64': (56, 248), 'aarch64': (220, 217)}[platform.machine()]
def told(done): return errno.errorcode[ctypes.get_errno()] if done < 0 else 'done'
print('keys', told(libc.syscall(KEYS, b'user', b'n', b'v', 1, -4)), told(libc.syscall(KEYS + 1, b'user', b'n', 0, 0)), told(libc.syscall(KEYS + 2, 0, -4, 1)))
if platform.machine() == 'x86_64': print('x32', told(libc.syscall(0x40000000 + 250, 0, -4, 1)))
if os.getuid() == 0:
    pid = libc.syscall(CLONE, NEW['user'] | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    print('user namespace', told(pid), told(libc.unshare(NEW['user'] | NEW['cgroup'] | NEW['mount'])), told(libc.syscall(435, 0, 0)))
pid = os.fork()
if pid == 0: os._exit(7)
thread = threading.Thread(target=print, args=('forks', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))); thread.start(); thread.join()
)");
    EXPECT_EQ(job.run_to_exit().code, 0) << job.log();
    EXPECT_TRUE(job.log().starts_with("keys EPERM EPERM EPERM\n")) << job.log();
    if (user == 0) {
      EXPECT_NE(job.log().find("user namespace EPERM EPERM ENOSYS\n"), std::string::npos) << job.log();
    }
    EXPECT_TRUE(job.log().ends_with("forks 7\n")) << job.log();
    EXPECT_EQ(job.log().find("done"), std::string::npos) << job.log();
    EXPECT_EQ(job.leftovers(), "");
  }
}

TEST(Instance, EndsAreToldAsTheyWere) {
  NEEDS_ROOT();
  struct Case {
    const char* script;
    int code, signal;
    const char* reason;
  };
  for (const Case& c :
       std::vector<Case>{{"", 0, 0, "exit code 0"},
                         {"raise SystemExit(3)", 3, 0, "exit code 3"},
                         {"raise SystemExit(255)", 255, 0, "exit code 255"},
                         {"import os; os.kill(os.getpid(), 9)", 137, 9, "killed by SIGKILL"},
                         {"import os; os.kill(os.getpid(), 11)", 139, 11, "killed by SIGSEGV"},
                         {"import os; os.kill(1, 9); os.kill(1, 15)", 0, 0, "exit code 0"}}) {
    TestJob job;
    job.script(c.script);
    Exited exited = job.run_to_exit();
    EXPECT_EQ(exited.code, c.code) << c.script;
    EXPECT_EQ(exited.signal, c.signal) << c.script;
    EXPECT_EQ(exited.reason, c.reason) << c.script;
    EXPECT_FALSE(exited.oom);
    EXPECT_EQ(job.leftovers(), "");
  }
}

TEST(Instance, EntryThatCannotBeExecutedIs126Or127) {
  NEEDS_ROOT();
  TestJob missing;
  missing.assignment.entry = {"", {"no-such-program"}, {}};
  EXPECT_EQ(missing.run_to_exit().code, 127);
  TestJob plain;
  plain.write(plain.assignment.code_dir + "/data", "x", 0644);
  plain.assignment.entry = {"data", {}, {}};
  EXPECT_EQ(plain.run_to_exit().code, 126);
  EXPECT_EQ(plain.leftovers(), "");
}

TEST(Instance, EntryThatIsNowhereIsToldWithWhereItWasLookedFor) {
  NEEDS_ROOT();
  for (const char* path : {"", "/usr/bin", "/usr/bin:"}) {
    TestJob job;
    job.assignment.entry = {"", {"no-such-program"}, {}};
    job.assignment.environment = {{"PATH", path}};
    const Exited exited = job.run_to_exit();
    EXPECT_EQ(exited.code, 127) << path;
    EXPECT_NE(exited.reason.find("there is no program 'no-such-program'"), std::string::npos)
        << exited.reason;
  }
}

TEST(Instance, EmptyFolderOfPathIsTheCodeFolder) {
  NEEDS_ROOT();
  TestJob job;
  job.write(job.assignment.code_dir + "/beside", "#!/bin/sh\necho found $0\n");
  job.assignment.entry = {"", {"beside"}, {}};
  job.assignment.environment = {{"PATH", ""}};
  EXPECT_EQ(job.run_to_exit().code, 0) << job.log();
  EXPECT_EQ(job.log(), "found ./beside\n");
}

TEST(Instance, FailureTextIsToldAndAPipeInItsPlaceDoesNotBlock) {
  NEEDS_ROOT();
  TestJob told;
  told.script("open('/opt/ml/output/failure', 'w').write('no data'); raise SystemExit(1)");
  EXPECT_EQ(told.run_to_exit().failure, "no data");
  TestJob pipe;
  pipe.script("import os; os.mkfifo('/opt/ml/output/failure'); raise SystemExit(1)");
  EXPECT_EQ(pipe.run_to_exit().failure, "");
  TestJob link;
  link.script("import os; os.symlink('/etc/passwd', '/opt/ml/output/failure'); raise SystemExit(1)");
  EXPECT_EQ(link.run_to_exit().failure, "");
}

TEST(Instance, EveryByteOfTheLogIsThere) {
  NEEDS_ROOT();
  TestJob job;
  job.script(R"(
import os
for i in range(20000): os.write(1 + i % 2, (b'%06d' % i).ljust(1023, b'.') + b'\n')
os.kill(os.getpid(), 9)
)");
  job.run_to_exit();
  std::string expected;
  for (int i = 0; i < 20000; i++) {
    char number[8];
    snprintf(number, sizeof number, "%06d", i);
    expected += number + std::string(1017, '.') + "\n";
  }
  EXPECT_EQ(sha256_hex(as_bytes(job.log())), sha256_hex(as_bytes(expected)));
}

TEST(Instance, OrphansAreReaped) {
  NEEDS_ROOT();
  TestJob job;
  job.script(R"(
import os, time
r, w = os.pipe()
for i in range(50):
    if os.fork() == 0:
        if os.fork() == 0: os.write(w, b'x')
        os._exit(0)
    os.wait()
for i in range(50): os.read(r, 1)
deadline = time.time() + 20
def others(): return [p for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]
while others() and time.time() < deadline: time.sleep(0.01)
print('left', others())
)");
  job.run_to_exit();
  EXPECT_EQ(job.log(), "left []\n");
}

TEST(Instance, DaemonsThatDefendThemselvesEndWithIt) {
  NEEDS_ROOT();
  TestJob job;
  job.script(R"(
import os, signal, time
r, w = os.pipe()
for i in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(s, signal.SIG_IGN)
            os.write(w, b'x')
            while True: time.sleep(1000)
        os._exit(0)
    os.wait()
for i in range(5): os.read(r, 1)
print('daemons run', flush=True)
)");
  EXPECT_EQ(job.run_to_exit().code, 0);
  EXPECT_EQ(job.log(), "daemons run\n");
  EXPECT_EQ(job.leftovers(), "");
}

double cores_used(double quota) {
  TestJob job;
  job.assignment.cores = quota;
  job.script(R"(
import os, time
os.fork()
end = time.monotonic() + 2
while time.monotonic() < end: pass
)");
  job.run_to_exit();
  auto series = telemetry::read_series(job.assignment.job_dir + "/metrics/algo-1.jsonl");
  EXPECT_TRUE(series.ok() && series->size() >= 3);
  return telemetry::mean_cores(*series);
}

// Never more than the quota; less only as far as other work on this machine takes the cores away.
TEST(Instance, QuotaHolds) {
  NEEDS_ROOT();
  double small = cores_used(0.05), large = cores_used(0.15);
  EXPECT_LT(small, 0.055);
  EXPECT_LT(large, 0.165);
  EXPECT_GT(large / small, 2);
}

TEST(Instance, StopsWithTermAndThenKill) {
  NEEDS_ROOT();
  for (bool obeys : {true, false}) {
    TestJob job;
    job.script(std::string("import os, signal, sys, time\n") +
               (obeys ? "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'saved\\n'), sys.exit(7)))\n"
                      : "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n") +
               "os.write(1, b'ready\\n')\nwhile True: time.sleep(1000)\n");
    std::thread stopper([&] {
      job.events.wait_for<Started>();
      EXPECT_TRUE(job.wait_for_log("ready"));
      job.stop.request({obeys ? 60.0 : 0.2, "test"});
    });
    Outcome outcome = job.run();
    stopper.join();
    ASSERT_TRUE(std::holds_alternative<Stopped>(outcome)) << job.events.text();
    EXPECT_EQ(std::get<Stopped>(outcome), (obeys ? Stopped{7, 0, false} : Stopped{137, 9, true}));
    EXPECT_EQ(job.log(), obeys ? "ready\nsaved\n" : "ready\n");
    EXPECT_EQ(job.leftovers(), "");
  }
}

TEST(Instance, StopBeforeTheStartMeansNoStart) {
  NEEDS_ROOT();
  TestJob job;
  job.script("print('ran')");
  job.stop.request({1, "test"});
  EXPECT_TRUE(std::holds_alternative<Stopped>(job.run()));
  EXPECT_FALSE(job.events.find<Started>());
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, PlatformsFaultIsFailedAndUndone) {
  NEEDS_ROOT();
  TestJob job;
  job.script("");
  job.assignment.channels = {{"photos", "/no/such/folder", true}};
  Outcome outcome = job.run();
  ASSERT_TRUE(std::holds_alternative<Failed>(outcome));
  EXPECT_EQ(std::get<Failed>(outcome).step, "channels");
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, WhatTheKernelRefusesIsThePlatformsFault) {
  NEEDS_ROOT();
  TestJob job;
  job.script("");
  job.assignment.network.mtu = 1;  // EINVAL, whose code is that of a user's wrong input too
  Outcome outcome = job.run();
  ASSERT_TRUE(std::holds_alternative<Failed>(outcome)) << job.events.text();
  EXPECT_EQ(std::get<Failed>(outcome).step, "network");
  EXPECT_NE(std::get<Failed>(outcome).message.find("Invalid argument"), std::string::npos)
      << job.events.text();
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, InputThatIsNoFolderIsTheUsersFault) {
  NEEDS_ROOT();
  TestJob job;
  job.script("");
  job.write(job.root() + "/photos", "");
  job.assignment.channels = {{"photos", job.root() + "/photos", true}};
  EXPECT_EQ(job.run_to_exit().code, 125);
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, KilledAgentTakesItWithIt) {
  NEEDS_ROOT();
  TestJob job;
  job.script("import time\nprint('ready', flush=True)\nwhile True: time.sleep(1000)\n");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  pid_t agent = fork();
  if (agent == 0) {
    struct Tell : EventSink {
      int fd;
      void emit(Outcome what) override {
        if (auto* started = std::get_if<Started>(&what)) (void)!write(fd, &started->pid, sizeof started->pid);
      }
    } tell;
    tell.fd = ends[1];
    run_instance(job.assignment, tell, job.stop, job.program);
    _exit(0);
  }
  int64_t shim = 0;
  ASSERT_EQ(read(ends[0], &shim, sizeof shim), static_cast<ssize_t>(sizeof shim));
  ASSERT_TRUE(job.wait_for_log("ready"));
  UniqueFd shim_fd(static_cast<int>(syscall(SYS_pidfd_open, shim, 0)));
  ASSERT_TRUE(shim_fd);
  kill(agent, SIGKILL);
  waitpid(agent, nullptr, 0);
  pollfd ended{shim_fd.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 10'000), 1) << "the shim outlived its agent";
  ASSERT_TRUE(clear_leftovers(job.assignment).ok());
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, TwoOfAJobReachEachOtherByName) {
  NEEDS_ROOT();
  TestJob job;
  job.script(R"(
import os, socket, time
if os.environ['SM_CURRENT_HOST'] == 'algo-1':
    s = socket.create_server(('', 7000))
    c, _ = s.accept(); print(c.recv(100).decode())
else:
    for i in range(500):
        try: c = socket.create_connection(('algo-1', 7000)); break
        except OSError: time.sleep(0.02)
    c.sendall(b'hello from ' + socket.gethostname().encode())
)");
  Assignment other = job.assignment;
  other.host = "algo-2";
  other.group = "data";
  other.role = Role::kFeed;
  other.network.address = other.addresses["algo-2"];
  RecordedEvents events;
  std::thread second([&] { run_instance(other, events, job.stop, job.program); });
  EXPECT_EQ(job.run_to_exit().code, 0);
  second.join();
  EXPECT_EQ(job.log(), "hello from algo-2\n") << events.text() << job.log("algo-2", "data");
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, FeedGroupRunsTheWorkerAndItsGroupTheDispatcher) {
  NEEDS_ROOT();
  TestJob job;
  // Stands for our own program and says how it was called. It lies in /tmp, which is private inside.
  job.program = job.root() + "/program";
  job.write(job.program,
            "#!/bin/sh\necho \"$@\" in $PWD with $STOKER_PYTHON\ntouch /opt/ml/output/data/said\nexec sleep "
            "1000\n");
  job.write(job.assignment.job_dir + "/feed-token", "secret", 0400);
  job.assignment.feed = {{"algo-1:7170"}, job.assignment.job_dir + "/feed-token"};
  job.script(R"(
import os, time
while not os.path.exists('/opt/ml/output/data/said'): time.sleep(0.01)
)");
  EXPECT_EQ(job.run_to_exit().code, 0);
  EXPECT_EQ(job.log("dispatcher"),
            "feed-dispatcher --listen 0.0.0.0:7170 --token-file /opt/ml/input/config/feed-token in / with "
            "/usr/bin/python3\n");

  Assignment worker = job.assignment;
  worker.host = "algo-2", worker.group = "data", worker.role = Role::kFeed, worker.entry = {};
  worker.network.address = worker.addresses["algo-2"];
  worker.feed.dispatchers = {"algo-1:7170", "algo-3:7170"};
  RecordedEvents events;
  StopRequest stop;
  std::thread stopper([&] {
    EXPECT_TRUE(job.wait_for_log(
        "feed-worker --listen 0.0.0.0:7171 --advertise algo-2:7171 --dispatcher algo-1:7170,algo-3:7170 "
        "--token-file /opt/ml/input/config/feed-token --group data in /opt/ml/code with /usr/bin/python3\n",
        "algo-2", "data"));
    stop.request({5, "training ended"});
  });
  run_instance(worker, events, stop, job.program);
  stopper.join();
  EXPECT_TRUE(events.find<Stopped>()) << events.text();
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, DispatcherThatEndsIsStartedAgainAndToldOf) {
  NEEDS_ROOT();
  TestJob job(65534);
  job.program = job.root() + "/program";
  job.write(job.program,
            "#!/bin/sh\necho started as $(id -u)\n"
            "[ -e /tmp/once ] || { touch /tmp/once; kill -9 $$; }\nexec sleep 1000\n");
  job.write(job.assignment.job_dir + "/feed-token", "secret", 0444);
  job.assignment.feed = {{"algo-1:7170"}, job.assignment.job_dir + "/feed-token"};
  job.script("import time\nprint('ready', flush=True)\nwhile True: time.sleep(1000)\n");
  std::thread stopper([&] {
    job.events.wait_for<Notice>();
    EXPECT_TRUE(job.wait_for_log("started as 65534\nstarted as 65534\n", "dispatcher"));
    job.stop.request({5, "test"});
  });
  job.run();
  stopper.join();
  EXPECT_NE(job.events.text().find("the feed's dispatcher ended with code 137 and was started again"),
            std::string::npos)
      << job.events.text();
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, FeedWorkerThatEndsUntoldIsStartedAgain) {
  NEEDS_ROOT();
  TestJob job(65534);
  job.program = job.root() + "/program";
  job.write(job.program,
            "#!/bin/sh\necho started as $(id -u)\n"
            "[ -e /tmp/once ] || { touch /tmp/once; kill -9 $$; }\n"
            "trap 'echo told; exit 3' TERM\nwhile :; do sleep 0.05; done\n");
  job.write(job.assignment.job_dir + "/feed-token", "secret", 0444);
  job.assignment.role = Role::kFeed, job.assignment.entry = {};
  job.assignment.feed = {{"algo-2:7170"}, job.assignment.job_dir + "/feed-token"};
  std::thread stopper([&] {
    job.events.wait_for<Notice>();
    EXPECT_TRUE(job.wait_for_log("started as 65534\nstarted as 65534\n"));
    job.stop.request({5, "test"});
  });
  job.run();
  stopper.join();
  EXPECT_NE(job.events.text().find("the feed worker ended with code 137 and was started again"),
            std::string::npos)
      << job.events.text();
  EXPECT_TRUE(job.log().ends_with("told\n")) << job.log();
  auto stopped = job.events.find<Stopped>();
  ASSERT_TRUE(stopped) << job.events.text();
  EXPECT_EQ(stopped->code, 3);
  EXPECT_EQ(job.leftovers(), "");
}

bool have_pip() { return run_command({{"/usr/bin/python3", "-m", "pip", "--version"}, {}}).value() == 0; }

// A wheel whose module holds `value`. Its name, and so what lists it, is always the same.
void write_probe(TestJob& job, int value) {
  const std::string wheel = job.assignment.code_dir + "/stoker_probe-1.0-py3-none-any.whl";
  job.write(job.root() + "/make.py", R"(
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    z.writestr('stoker_probe.py', f'value = {sys.argv[2]}\n')
    info = 'stoker_probe-1.0.dist-info/'
    z.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: stoker-probe\nVersion: 1.0\n')
    z.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    z.writestr(info + 'RECORD', '')
)");
  ASSERT_EQ(
      run_command({{"/usr/bin/python3", job.root() + "/make.py", wheel, std::to_string(value)}, {}}).value(),
      0);
}

TEST(Instance, ChangedPackageBehindTheSameListIsInstalledAgain) {
  NEEDS_ROOT();
  if (!have_pip()) GTEST_SKIP() << "this machine's Python has no pip";
  TestJob job(65534);
  job.write(job.assignment.code_dir + "/requirements.txt", "-r base.txt\n");
  job.write(job.assignment.code_dir + "/base.txt", "--no-index\n./stoker_probe-1.0-py3-none-any.whl\n");
  job.assignment.requirements_file = "requirements.txt";
  job.script("import stoker_probe; print('value', stoker_probe.value)");
  for (int value : {1, 2}) {
    write_probe(job, value);
    EXPECT_EQ(job.run_to_exit().code, 0) << job.log();
    EXPECT_TRUE(job.log().ends_with("value " + std::to_string(value) + "\n")) << job.log();
  }
  const std::string before = job.log();
  EXPECT_EQ(job.run_to_exit().code, 0) << job.log();
  EXPECT_EQ(job.log(), before + "value 2\n") << "nothing changed, nothing is installed";
}

TEST(Instance, ListThatMayChangeUnseenIsInstalledForItsJobAlone) {
  NEEDS_ROOT();
  if (!have_pip()) GTEST_SKIP() << "this machine's Python has no pip";
  TestJob job(65534);
  write_probe(job, 7);
  job.write(job.assignment.code_dir + "/requirements.txt",
            "--no-index\n./stoker_probe-1.0-py3-none-any.whl\n");
  job.write(job.assignment.code_dir + "/constraints.txt", "");
  job.assignment.environment["PIP_CONSTRAINT"] = "constraints.txt";
  job.assignment.requirements_file = "requirements.txt";
  job.script("import stoker_probe; print('value', stoker_probe.value)");
  EXPECT_EQ(job.run_to_exit().code, 0) << job.log();
  EXPECT_TRUE(job.log().ends_with("value 7\n")) << job.log();
  EXPECT_TRUE(std::filesystem::exists(job.assignment.job_dir + "/packages/stoker_probe.py"));
  EXPECT_TRUE(std::filesystem::is_empty(job.assignment.stoker_home + "/cache/requirements"));
  EXPECT_EQ(job.foreign_files(), "");
}

TEST(Instance, RequirementsAreInstalledOnceAndImportable) {
  NEEDS_ROOT();
  if (!have_pip()) GTEST_SKIP() << "this machine's Python has no pip";
  TestJob job(65534);
  write_probe(job, 42);
  job.write(job.assignment.code_dir + "/requirements.txt",
            "--no-index\n./stoker_probe-1.0-py3-none-any.whl\n");
  job.assignment.requirements_file = "requirements.txt";
  job.script("import stoker_probe; print('value', stoker_probe.value)");
  EXPECT_EQ(job.run_to_exit().code, 0) << job.log();
  EXPECT_NE(job.log().find("value 42\n"), std::string::npos) << job.log();
  EXPECT_EQ(job.foreign_files(), "");
  job.write(job.assignment.code_dir + "/requirements.txt", "--no-index\nno-such-package-here\n");
  TestJob second(65534);
  second.assignment.code_dir = job.assignment.code_dir;
  second.assignment.requirements_file = "requirements.txt";
  Outcome outcome = second.run();
  ASSERT_TRUE(std::holds_alternative<Exited>(outcome)) << second.events.text();
  EXPECT_EQ(std::get<Exited>(outcome).code, 125) << "the script never ran";
  EXPECT_EQ(
      std::get<Exited>(outcome).reason,
      "pip could not install requirements.txt: No matching distribution found for no-such-package-here");
  EXPECT_NE(second.log().find("no-such-package-here"), std::string::npos);
  EXPECT_TRUE(second.log().ends_with("stoker: requirements: pip could not install requirements.txt\n"))
      << "pip's words are not said again: " << second.log();
}

}  // namespace
}  // namespace stoker::agent
